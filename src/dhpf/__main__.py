"""The program: ``dhpf``, or ``python -m dhpf``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run a command. Ctrl-C may come at any time, while libraries are imported too."""
    try:
        from .cli import main as run
        from .processes import leave

        try:
            run()
        except SystemExit as ended:
            leave(ended.code, at_once=isinstance(ended.__cause__, Exception))  # out of memory
    except KeyboardInterrupt:
        print("dhpf: error: interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
