"""The study of one pair as a table, a chart and files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ..evaluate.render import Table, print_tables
from .charts import BLUE, GREY, VERMILION, Cell, Chart, drawing, render
from .pair import FORCED_IN, LEFT_OUT, PairStudy
from .report import as_text, write_contents

if TYPE_CHECKING:
    from rich.console import Console

TITLE = "One pair, layer by layer"
COLUMNS = ("layer", "state", "gate", "tried", "points move (px)", "pixels move (px)", "confidence changes by")
COLOURS = {LEFT_OUT: VERMILION, FORCED_IN: BLUE}
HATCHES = {LEFT_OUT: "", FORCED_IN: "////"}  # colour alone must not carry the meaning
MEANINGS = {LEFT_OUT: "on: what leaving it out changes", FORCED_IN: "off: what forcing it in changes"}


def rows_of(study: PairStudy) -> list[tuple[Cell, ...]]:
    """One row a layer."""
    return [
        (
            effect.layer,
            "on" if effect.on else "off",
            None if effect.probability is None else round(effect.probability, 4),
            effect.tried,
            *([round(value, 4) for value in effect.change] if effect.change else [None] * 3),
        )
        for effect in study.effects
    ]


def draw_pair(study: PairStudy) -> Chart:
    """Bars, a row for each layer: the gate, and what changes if the layer is left out or forced in."""
    rows = rows_of(study)
    gated = rows[0][2] is not None
    panels = [2, 4, 5, 6] if gated else [4, 5, 6]
    with drawing(2.6 * len(panels) + 1.2, 1.4 + 0.24 * len(rows)) as figure:
        grid = figure.subplots(1, len(panels), sharey=True)
        for axes, column in zip(grid, panels, strict=True):
            for tried in COLOURS:
                values = {place: row[column] for place, row in enumerate(rows) if row[3] == tried}
                bars = {place: value for place, value in values.items() if value is not None}
                axes.barh(
                    list(bars),
                    list(bars.values()),
                    height=0.7,
                    color=COLOURS[tried],
                    edgecolor="white",
                    hatch=HATCHES[tried],
                    linewidth=0,
                    label=MEANINGS[tried],
                )
                for place in set(values) - set(bars):
                    axes.plot(0, place, "x", markersize=4, color=GREY, clip_on=False)
            axes.set_title(COLUMNS[column], fontsize=9)
            axes.grid(axis="x")
            axes.grid(visible=False, axis="y")
        if gated:
            grid[0].set_xlim(0, 1)
        ticks = grid[0].set_yticks(range(len(rows)), [f"{row[0]}  {row[1]}" for row in rows])
        for tick, row in zip(ticks, rows, strict=True):
            tick.label1.set_fontweight("bold" if row[1] == "on" else "normal")
        grid[0].set_ylabel("layer")
        grid[0].set_ylim(len(rows) - 0.4, -0.6)
        figure.legend(*grid[-1].get_legend_handles_labels(), loc="outside lower center", ncols=2)
        png, svg = render(figure)
    return Chart("pair", TITLE, "", COLUMNS, tuple(rows), png, svg)


def write_pair(study: PairStudy, folder: Path, inputs: Iterable[Path | None] = ()) -> list[Path]:
    """Write the chart and the table, all files or none."""
    return write_contents(folder, draw_pair(study).files(), inputs)


def print_pair(study: PairStudy, console: Console) -> None:
    """The table for the terminal, and what it is about."""
    layers = ", ".join(str(effect.layer) for effect in study.effects if effect.on)
    note = f"{study.match.model}: layers {layers}; {len(study.points)} points are followed"
    print_tables([Table(TITLE, COLUMNS[1:], as_text(rows_of(study), 3), note)], [], console)
