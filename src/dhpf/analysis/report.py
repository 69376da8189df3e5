"""A study as files: one HTML page that needs nothing else, every figure as PNG, SVG and CSV, an overview."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InputError
from ..files import Writer, write_together
from .charts import Cell, Chart, Row, to_csv
from .figures import draw_figures
from .study import ModelStudy

if TYPE_CHECKING:
    from rich.console import Console

PAGE, OVERVIEW = "report.html", "overview.csv"
TITLE = "Which layers are chosen"
NOT_TIMED = (
    "Time per pair: not measured, since predictions files do not hold it; "
    "give models and a data set (--model, --dataset, --root) to measure it."
)
COLUMNS = ("model", "data", "pairs", "layers", "of", "metric", "value", "ms")
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 32px auto; padding: 0 20px }
table { border-collapse: collapse } td, th { padding: 3px 14px 3px 0; text-align: left; white-space: nowrap }
figure { margin: 40px 0 } svg { max-width: 100%; height: auto; background: #fff }
"""


def make_folder(path: Path) -> None:
    """Make the output folder, before any work is done."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file; wanted: a folder for the report (--out DIR)")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {path}: {error.strerror}") from None


def write_report(models: Sequence[ModelStudy], folder: Path) -> list[Path]:
    """Write everything, all of it or nothing.

    Returns
    -------
    The files, the page last.
    """
    charts = draw_figures(models)
    contents = {name: content for chart in charts for name, content in chart.files().items()}
    contents[OVERVIEW] = to_csv(COLUMNS, overview(models)).encode()
    contents[PAGE] = to_html(models, charts).encode()
    return write_contents(folder, contents)


def write_contents(folder: Path, contents: Mapping[str, bytes]) -> list[Path]:
    """Write files of these names into the folder, all of them or none."""

    def writer(content: bytes) -> Writer:
        return lambda place: place.write_bytes(content)

    paths = {folder / name: writer(content) for name, content in contents.items()}
    write_together(paths)
    return list(paths)


def overview(models: Sequence[ModelStudy]) -> list[Row]:
    """One row a model: the figures that are looked for first."""
    return [
        (
            model.label,
            f"{model.predictions.dataset} {model.predictions.split}",
            len(model.predictions),
            None if model.layers is None else round(float(model.layers.sum(axis=1).mean()), 2),
            None if model.layers is None else model.layers.shape[1],
            model.metric,
            None if model.accuracy is None else round(model.accuracy.values[-1], 2),
            None if model.milliseconds is None else round(float(np.median(model.milliseconds)), 1),
        )
        for model in models
    ]


def notes(models: Sequence[ModelStudy]) -> list[str]:
    """What must be read with the figures."""
    timed = any(model.milliseconds is not None for model in models)
    return [*([] if timed else [NOT_TIMED]), *(note for model in models for note in model.notes())]


def print_overview(models: Sequence[ModelStudy], console: Console) -> None:
    """The overview and the notes, for the terminal."""
    from rich.text import Text

    print_table(COLUMNS, overview(models), console, digits=1)
    for note in notes(models):
        console.print(Text(note), soft_wrap=True)


def print_table(columns: Sequence[str], rows: Sequence[Row], console: Console, digits: int) -> None:
    """A table for the terminal. Names are text, never markup: square brackets stay."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Column, Table
    from rich.text import Text

    heads = [
        Column(Text(column), justify="right" if number else "left") for number, column in enumerate(columns)
    ]
    table = Table(*heads, box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for row in rows:
        table.add_row(*(Text(_shown(cell, digits)) for cell in row))
    console.print(table)


def to_html(models: Sequence[ModelStudy], charts: Sequence[Chart]) -> str:
    """The page."""
    lines = (COLUMNS, *overview(models))
    table = "".join(
        f"<tr>{''.join(f'<td>{escape(_shown(cell))}</td>' for cell in row)}</tr>" for row in lines
    )
    remarks = "".join(f"<p>{escape(note)}</p>" for note in notes(models))
    figures = "".join(
        f"<figure><h2>{escape(chart.title)}</h2>{chart.svg[chart.svg.index('<svg ') :]}"
        f"<figcaption>{escape(chart.caption)} <code>{escape(chart.name)}.csv</code></figcaption></figure>"
        for chart in charts
    )
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{TITLE}</title>'
        f"<style>{STYLE}</style></head>\n<body><h1>{TITLE}</h1><table>{table}</table>{remarks}{figures}</body></html>\n"
    )


def _shown(cell: Cell, digits: int = 1) -> str:
    if cell is None:
        return "-"
    return f"{cell:.{digits}f}" if isinstance(cell, float) else str(cell)
