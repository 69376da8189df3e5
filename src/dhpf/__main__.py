"""``python -m dhpf`` is the same as ``dhpf``."""

from .cli import main

if __name__ == "__main__":
    main()
