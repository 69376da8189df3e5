"""The study of one pair as a table, a chart and files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from .charts import BLUE, CARD, GREY, INK, VERMILION, Cell, Chart, drawing, render
from .pair import FORCED_IN, LEFT_OUT, PairStudy
from .report import chart_files, terminal_table, write_contents

if TYPE_CHECKING:
    from rich.console import Console

NAME, DATA = "pair", "pair.json"
COLOURS = {LEFT_OUT: VERMILION, FORCED_IN: BLUE}
COLUMNS = (
    *("layer", "channels", "gate", "state", "tried"),
    *("points move (px)", "cells change (%)", "confidence changes by"),
)


def rows_of(study: PairStudy) -> list[tuple[Cell, ...]]:
    """One row a layer."""
    rows: list[tuple[Cell, ...]] = []
    for effect in study.effects:
        change = effect.change
        figures: tuple[Cell, ...] = (None, None, None)
        if change is not None:
            figures = (
                round(change.displacement, 3),
                round(100 * change.changed, 2),
                round(change.confidence, 5),
            )
        gate = None if effect.probability is None else round(effect.probability, 4)
        state = "on" if effect.on else "off"
        rows.append((effect.layer, effect.channels, gate, state, effect.what, *figures))
    return rows


def draw_pair(study: PairStudy) -> Chart:
    """Bars, a row for each layer: the gate, and what changes if the layer is left out or forced in."""
    rows = rows_of(study)
    gated = any(row[2] is not None for row in rows)
    panels = [(column, COLUMNS[column]) for column in (5, 6, 7)]
    if gated:
        panels.insert(0, (2, "gate's probability of on"))
    with drawing(2.6 * len(panels) + 1.2, 1.4 + 0.24 * len(rows)) as figure:
        grid = figure.subplots(1, len(panels), sharey=True)
        for axes, (column, title) in zip(grid, panels, strict=True):
            for place, row in enumerate(rows):
                value, what = row[column], str(row[4])
                if isinstance(value, (int, float)):
                    # Colour alone must not carry the meaning: forced in is hatched.
                    hatch = "////" if what == FORCED_IN else None
                    axes.barh(
                        place,
                        value,
                        height=0.7,
                        color=COLOURS[what],
                        edgecolor=CARD,
                        hatch=hatch,
                        linewidth=0,
                    )
                else:
                    axes.plot(0, place, "x", markersize=4, color=GREY, clip_on=False)
            axes.set_title(title, fontweight="normal", fontsize=9)
            axes.grid(axis="x", linewidth=0.8)
        if gated:
            grid[0].set_xlim(0, 1)
            grid[0].axvline(0.5, color=INK, linewidth=0.8, linestyle=":")
        grid[-1].axvline(0, color=INK, linewidth=0.8)
        grid[0].set_yticks(range(len(rows)), [f"{row[0]}  {row[3]}" for row in rows])
        for tick, row in zip(grid[0].get_yticklabels(), rows, strict=True):
            tick.set(color=INK, fontweight="bold" if row[3] == "on" else "normal")
        grid[0].set_ylabel("layer")
        grid[0].set_ylim(len(rows) - 0.4, -0.6)
        from matplotlib.patches import Patch

        keys = [
            Patch(facecolor=VERMILION, label="on: what leaving it out changes"),
            Patch(facecolor=BLUE, edgecolor=CARD, hatch="////", label="off: what forcing it in changes"),
        ]
        figure.legend(handles=keys, loc="outside lower center", ncols=2)
        png, svg = render(figure)
    return Chart(NAME, "One pair, layer by layer", "", COLUMNS, tuple(rows), png, svg)


def write_pair(study: PairStudy, folder: Path) -> list[Path]:
    """Write chart, table and JSON, all of them or none."""
    contents = chart_files([draw_pair(study)])
    contents[DATA] = (json.dumps(study.to_dict(), indent=1) + "\n").encode()
    return write_contents(folder, contents)


def print_pair(study: PairStudy, console: Console) -> None:
    """The table for the terminal, and what it is about."""
    from rich.text import Text

    layers = ", ".join(map(str, study.match.layers))
    console.print(Text(f"{study.match.model}: layers {layers}"), soft_wrap=True)
    console.print(
        Text(f"mean confidence {study.confidence:.4f}; {len(study.points)} points are followed"),
        soft_wrap=True,
    )
    forms = ("", "", ".2f", "", "", ".2f", ".1f", "+.4f")
    lines = [
        ["-" if cell is None else format(cell, form) for cell, form in zip(row, forms, strict=True)]
        for row in rows_of(study)
    ]
    console.print(terminal_table(COLUMNS, lines))
