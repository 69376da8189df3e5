"""What the terminal shows: text as it is, and progress bars. Square brackets are no markup anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.console import Console

Item = TypeVar("Item")


def plain_console(stderr: bool = False) -> Console:
    """A console that prints what it is given."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def shown(items: Iterable[Item], what: str, total: int, hidden: bool = False) -> Iterator[Item]:
    """The items, counted by a bar on stderr; nothing is shown where that is no terminal."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    target = plain_console(stderr=True)
    if hidden or not target.is_terminal:  # a disabled bar of older releases of rich ends with an empty line
        yield from items
        return
    columns = TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn()
    with Progress(*columns, TimeRemainingColumn(), console=target) as progress:
        yield from progress.track(items, total, description=what)
