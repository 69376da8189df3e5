"""Which files a command line names: all of them, so that no command forgets one that it must not replace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import typer

FILES_OR_NAMES = ("model", "points")  # options that take a file or something else


def files_given(context: typer.Context, *outputs: str) -> Iterator[Path]:
    """What all arguments and options name, but for these of them."""
    for option, value in context.params.items():
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if option not in outputs and (
                isinstance(one, Path) or (option in FILES_OR_NAMES and isinstance(one, str))
            ):
                yield Path(one)
