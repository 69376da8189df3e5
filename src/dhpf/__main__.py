"""The program: ``dhpf``, or ``python -m dhpf``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run a command. Ctrl-C may come at any time, while libraries are imported too."""
    try:
        from .cli import main as run

        run()
    except KeyboardInterrupt:
        print("dhpf: error: interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
