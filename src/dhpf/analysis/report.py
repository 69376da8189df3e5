"""A study as files: one HTML page that needs nothing else, every figure as PNG, SVG and CSV, and a JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InputError
from ..evaluate.svg import tag
from ..files import write_together
from .charts import Cell, Chart, missing, to_csv
from .comparison_figures import agreement, agreement_beyond_habit, quality_against_time
from .selection_figures import dimensions, gates_by_category, layer_counts, layers_by_category
from .study import Study, numbered, to_dict

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

PAGE, DATA, OVERVIEW = "report.html", "analysis.json", "overview.csv"
TITLE = "Which layers are chosen"


def make_folder(path: Path) -> None:
    """Make the output folder, before any work is done."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file; wanted: a folder for the report (--out DIR)")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {path}: {error.strerror}") from None


def draw(study: Study) -> list[Chart]:
    """All figures that the study has numbers for: models side by side first, then one by one."""
    charts = []
    if study.timings is not None and any(quality.value is not None for quality in study.qualities):
        labels = [selection.label for selection in study.selections]
        figures = zip(study.qualities, study.timings, strict=True)
        charts.append(quality_against_time(dict(zip(labels, figures, strict=True))))
    charts += [layer_counts(study.selections), dimensions(study.selections)]
    backbones = {len(selection.channels): selection.channels for selection in study.selections}
    for count, channels in backbones.items():
        own = [each for each in study.agreements if len(each.same) == count]
        if own:
            charts.append(agreement(own, channels, f"agreement-{count}-layers"))
        if any(np.isfinite(each.correlation).any() for each in own):
            charts.append(agreement_beyond_habit(own, channels, f"agreement_beyond_habit-{count}-layers"))
    for number, selection in enumerate(study.selections, 1):
        which = numbered(number, selection.label)
        charts.append(layers_by_category(selection, f"layers_by_category-{which}"))
        if selection.gated:
            charts.append(gates_by_category(selection, f"gates_by_category-{which}"))
    return charts


def write_report(study: Study, folder: Path) -> list[Path]:
    """Write everything, all of it or nothing.

    Returns
    -------
    The files, the page last.
    """
    charts = draw(study)
    contents = dict(chart_files(charts))
    contents[OVERVIEW] = to_csv(*overview(study)).encode()
    contents[DATA] = (json.dumps(to_dict(study), indent=1, ensure_ascii=False) + "\n").encode()
    contents[PAGE] = to_html(study, charts).encode()
    return write_contents(folder, contents)


def chart_files(charts: Sequence[Chart]) -> dict[str, bytes]:
    """PNG, SVG and CSV of each figure by file name."""
    contents = {}
    for chart in charts:
        contents[f"{chart.name}.png"] = chart.png
        contents[f"{chart.name}.svg"] = chart.svg.encode()
        contents[f"{chart.name}.csv"] = chart.csv.encode()
    return contents


def write_contents(folder: Path, contents: Mapping[str, bytes]) -> list[Path]:
    """Write files of these names into the folder, all of them or none."""
    files = {folder / name: content for name, content in contents.items()}
    write_together(files)
    return list(files)


def overview(study: Study) -> tuple[tuple[str, ...], list[tuple[Cell, ...]]]:
    """One row a model: the figures that are looked for first."""
    columns = (
        "model",
        "data",
        "pairs",
        "layers on",
        "of",
        "dimension",
        "share",
        "metric",
        "value",
        "ms a pair",
    )
    rows: list[tuple[Cell, ...]] = []
    for index, (selection, quality) in enumerate(zip(study.selections, study.qualities, strict=True)):
        mean, full = float(selection.dimensions.mean()), int(selection.widths.sum())
        rows.append(
            (
                selection.label,
                f"{selection.predictions.dataset} {selection.predictions.split}",
                len(selection.layers),
                round(float(selection.counts.mean()), 2),
                len(selection.channels),
                round(mean, 1),
                round(mean / full, 4),
                quality.metric,
                None if quality.value is None else round(quality.value, 2),
                None if study.timings is None else round(study.timings[index].median, 1),
            )
        )
    return columns, rows


def print_overview(study: Study, console: Console) -> None:
    """The overview, short enough for 80 columns, and the notes, for the terminal."""
    from rich.text import Text

    _, rows = overview(study)
    lines = [
        (
            str(model),
            str(pairs),
            f"{on:.1f} of {layers}",
            f"{width:.0f} ({share:.0%})",
            _shown(value),
            _shown(time),
        )
        for model, _, pairs, on, layers, width, share, _, value, time in rows
    ]
    quality = " or ".join(sorted({each.metric for each in study.qualities}))
    columns = ("model", "pairs", "layers on", "dimension", quality, "ms a pair")
    console.print(Text(", ".join(sorted({str(row[1]) for row in rows}))), soft_wrap=True)
    console.print(terminal_table(columns, lines))
    for note in study.notes():
        console.print(Text(note), soft_wrap=True)


def terminal_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table for the terminal, all but the first column to the right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def to_html(study: Study, charts: Sequence[Chart]) -> str:
    """The page, in the style of the evaluation report."""
    commits = sorted({selection.predictions.commit or "not stated" for selection in study.selections})
    facts = {"models": str(len(study.selections)), "commit": ", ".join(commits)}
    if study.timed_with is not None:
        facts |= {"device": str(study.timed_with["device"]), "threads": str(study.timed_with["threads"])}
    entries = (tag("div", tag("dt", name), tag("dd", escape(value))) for name, value in facts.items())
    sections = [
        tag("header", tag("h1", TITLE), tag("dl", *entries)),
        tag("section", tag("h2", "Models"), tag("div", _table(*overview(study)), style="overflow-x: auto")),
        tag("ul", *(tag("li", escape(note)) for note in study.notes())),
        tag("div", *map(_section, charts), class_="charts"),
    ]
    style = files("dhpf.evaluate").joinpath("report.css").read_text(encoding="utf-8")
    head = [
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        tag("title", TITLE),
        tag("style", style),
    ]
    body = tag("body", tag("main", *sections))
    return f'<!doctype html>\n<html lang="en">\n{tag("head", *head)}\n{body}\n</html>\n'


def _section(chart: Chart) -> str:
    names = ", ".join(f"{chart.name}.{ending}" for ending in ("png", "svg", "csv"))
    numbers = tag("details", tag("summary", "All numbers"), _table(chart.columns, chart.rows))
    title, caption = tag("h2", escape(chart.title)), tag("p", escape(chart.caption))
    parts = title, chart.inline, caption, numbers, tag("p", tag("code", escape(names)))
    return tag("section", *parts, style="column-span: all; margin-top: 20px" if chart.wide else "")


def _table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    heads = tag("tr", *(tag("th", escape(column)) for column in columns))
    lines = (
        tag("tr", tag("th", escape(_shown(row[0]))), *(tag("td", escape(_shown(cell))) for cell in row[1:]))
        for row in rows
    )
    return tag("table", heads, *lines)


def _shown(cell: Cell) -> str:
    if missing(cell):
        return "-"
    return f"{cell:.5g}" if isinstance(cell, float) else str(cell)
