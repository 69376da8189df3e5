"""A progress bar on the terminal, and nothing where there is none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def shown(items: Iterable[Item], what: str, total: int, hidden: bool = False) -> Iterator[Item]:
    """The items, counted by a bar on stderr."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    hidden = hidden or not console.is_terminal
    yield from track(items, what, total=total, console=console, disable=hidden)
