"""A study as files: one HTML page that needs nothing else, every figure as PNG, SVG and CSV, an overview."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..evaluate.render import Table, page, print_tables, tag
from ..evaluate.render import to_html as table_to_html
from ..files import check_outputs, csv_text, write_together
from .charts import Chart, Row
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


def write_report(
    models: Sequence[ModelStudy], folder: Path, inputs: Iterable[Path | None] = ()
) -> list[Path]:
    """Write everything, all of it or nothing, and none of the inputs.

    Returns
    -------
    The files, the page last.
    """
    charts = draw_figures(models)
    contents = {name: content for chart in charts for name, content in chart.files().items()}
    contents[OVERVIEW] = csv_text([COLUMNS, *overview(models)]).encode()
    contents[PAGE] = to_html(models, charts).encode()
    return write_contents(folder, contents, inputs)


def write_contents(
    folder: Path, contents: Mapping[str, bytes], inputs: Iterable[Path | None] = ()
) -> list[Path]:
    """Write files of these names into the folder, all of them or none, and none of the inputs."""
    files = {folder / name: content for name, content in contents.items()}
    check_outputs(files, inputs)
    write_together(files)
    return list(files)


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
    print_tables([_table(models)], notes(models), console)


def to_html(models: Sequence[ModelStudy], charts: Sequence[Chart]) -> str:
    """The page."""
    figures = (
        tag(
            "figure",
            tag("h2", escape(chart.title)),
            chart.svg[chart.svg.index("<svg ") :],
            tag("figcaption", escape(chart.caption), " ", tag("code", escape(f"{chart.name}.csv"))),
        )
        for chart in charts
    )
    remarks = (tag("p", escape(note)) for note in notes(models))
    return page(TITLE, STYLE, tag("h1", TITLE), table_to_html(_table(models)), *remarks, *figures)


def _table(models: Sequence[ModelStudy]) -> Table:
    note = "layers that are on, on average; milliseconds a pair, their median"
    return Table("Models", COLUMNS[1:], as_text(overview(models), 1), note)


def as_text(rows: Sequence[Row], digits: int) -> list[tuple[str, ...]]:
    """Cells for people: numbers with so many decimals, a dash where there is none."""
    forms = {float: f".{digits}f", int: "d", str: "s"}
    return [tuple("-" if cell is None else format(cell, forms[type(cell)]) for cell in row) for row in rows]
