"""The program: ``dhpf``, or ``python -m dhpf``."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run a command. Ctrl-C may come at any time, while libraries are imported too."""
    try:
        from .cli import main as run

        run()
    except SystemExit as ended:
        if not isinstance(ended.__cause__, Exception):
            raise
        sys.stderr.flush()
        os._exit(2)  # out of memory: libraries may crash while they are unloaded
    except KeyboardInterrupt:
        print("dhpf: error: interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
