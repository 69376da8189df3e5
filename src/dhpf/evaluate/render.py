"""Tables for people: on the terminal, in Markdown and in HTML. Names in them are text, never markup."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from rich.console import Console

MARKUP = re.compile(r"([\\`*_\[\]<>|~&])")  # of Markdown


class Figure(NamedTuple):
    """A number, with the interval around it if there is one."""

    value: float
    interval: tuple[float, float] | None = None
    signed: bool = False  # a difference; else a percentage

    def text(self, digits: int = 1) -> str:
        """The number with one decimal, and the interval with so many."""
        number = f"{self.value:+.1f}" if self.signed else f"{self.value:.1f}"
        ends = [f"{end:.{digits}f}" for end in self.interval or ()]
        return f"{number} [{', '.join(ends)}]" if ends else number


Row: TypeAlias = tuple[str | int | Figure, ...]


class Table(NamedTuple):
    """A table; each row begins with its name. The note below it tells what the figures mean."""

    title: str
    columns: tuple[str, ...]  # but the first, of the names
    rows: Sequence[Row]
    note: str

    def texts(self, digits: int = 1) -> list[list[str]]:
        """The rows as text."""
        return [[c.text(digits) if isinstance(c, Figure) else str(c) for c in row] for row in self.rows]


def print_tables(tables: Sequence[Table], remarks: Sequence[str], console: Console, digits: int = 1) -> None:
    """Print for a terminal, intervals with so many decimals; then the remarks."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Column
    from rich.table import Table as Grid
    from rich.text import Text

    for table in tables:
        heads = [Column(Text(column), justify="right") for column in table.columns]
        grid = Grid("", *heads, box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
        for row in table.texts(digits):
            grid.add_row(*map(Text, row))
        console.print(Text(table.title, style="bold"))
        console.print(grid)
        console.print(Text(f"{table.note}\n", style="dim"), soft_wrap=True)
    for remark in remarks:
        console.print(Text(remark), soft_wrap=True)


def to_markdown(tables: Sequence[Table], remarks: Sequence[str]) -> str:
    """A section for each table, then the remarks."""
    parts: list[str] = []
    for table in tables:
        lines = [["", *table.columns], ["---", *["---:"] * len(table.columns)]]
        lines += [[_plain(name), *texts] for name, *texts in table.texts()]
        grid = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        parts.append(f"#{'#' * bool(parts)} {_plain(table.title)}\n\n{grid}\n\n`{table.note}`")
    parts.append("\n".join(f"- {_plain(remark)}" for remark in remarks))
    return "\n\n".join(parts) + "\n"


def to_html(table: Table) -> str:
    """A section of a page; a bar below each percentage shows it."""
    lines = [tag("tr", *(tag("th", escape(column)) for column in ("", *table.columns)))]
    for row, (name, *texts) in zip(table.rows, table.texts(), strict=True):
        cells = [
            tag("td", text, class_="percent", style=f"--fraction: {cell.value / 100:.3f}")
            if isinstance(cell, Figure) and not cell.signed
            else tag("td", escape(text))
            for cell, text in zip(row[1:], texts, strict=True)
        ]
        lines.append(tag("tr", tag("th", escape(name)), *cells))
    note = tag("p", tag("code", escape(table.note)))
    return tag("section", tag("h2", escape(table.title)), tag("table", *lines), note)


def tag(name: str, *content: str, **attributes: object) -> str:
    """An element; ``class_`` is written ``class``. Attributes are escaped here, content is not."""
    texts = {
        key: f"{value:.6g}" if isinstance(value, float) else str(value) for key, value in attributes.items()
    }
    pairs = (f'{key.rstrip("_")}="{escape(text)}"' for key, text in texts.items())
    return f"<{' '.join([name, *pairs])}>{''.join(content)}</{name}>"


def page(title: str, style: str, *body: str) -> str:
    """A page that needs nothing else."""
    meta = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    head = tag("head", meta, tag("title", escape(title)), tag("style", style))
    return f'<!doctype html>\n<html lang="en">\n{head}\n{tag("body", *body)}\n</html>\n'


def _plain(text: str) -> str:
    """Text that Markdown takes for nothing else."""
    return MARKUP.sub(r"\\\1", text)
