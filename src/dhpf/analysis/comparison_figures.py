"""Figures of models side by side: agreement of their choices, PCK against time.

M pairs of models  L layers
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np

from ..evaluate.breakdown import CONFIDENCE
from .agreement import Agreement
from .charts import (
    BLUE,
    CARD,
    GREEN,
    GREY,
    INK,
    PURPLE,
    SOFT,
    VERMILION,
    Chart,
    Row,
    colour_bar,
    drawing,
    layer_axis,
    render,
)
from .selection import Floats, Quality
from .selection_figures import SHARE_COLOURS
from .timing import Timing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIGNED_COLOURS = "PuOr"  # two hues that every kind of colour vision tells apart

POINT_COLOURS = BLUE, VERMILION, GREEN, PURPLE, GREY
POINT_SHAPES = "os^DvPX"  # as many colours as shapes would give every shape one colour


def agreement(found: Sequence[Agreement], channels: Sequence[int], name: str) -> Chart:
    """How alike the choices of every two models are: as sets, and layer by layer."""
    jaccard = np.array([each.jaccard.mean() for each in found])
    with drawing(9, 1.5 + 0.46 * len(found)) as figure:
        left, right = figure.subplots(1, 2, width_ratios=(1, 2.6), sharey=True)
        left.barh(range(len(found)), jaccard, height=0.62, color=BLUE)
        for place, mean in enumerate(jaccard):
            left.annotate(
                f"{mean:.2f}", (mean, place), (4, 0), textcoords="offset points", va="center", fontsize=8
            )
        left.set(xlim=(0, 1.18), xticks=(0, 0.5, 1), xlabel="mean Jaccard index")
        _layer_cells(right, 100 * np.stack([each.same for each in found]), channels, SHARE_COLOURS, (0, 100))
        _name_rows(left, found)
        colour_bar(figure, right, "same in % of the pairs", aspect=10)
        png, svg = render(figure)
    return Chart(
        name,
        f"Agreement of models with {len(channels)} layers",
        "Left: of the layers that either model chose for a pair, the share that both chose, averaged over "
        "the pairs. Right: for how many percent of the pairs both say the same of a layer, on or off.",
        ("first", "second", "pairs", "mean jaccard", *(f"same {layer}" for layer in range(len(channels)))),
        tuple(
            (each.first, each.second, each.pairs, round(float(mean), 6), *np.round(each.same, 6).tolist())
            for each, mean in zip(found, jaccard, strict=True)
        ),
        png,
        svg,
        wide=True,
    )


def agreement_beyond_habit(found: Sequence[Agreement], channels: Sequence[int], name: str) -> Chart:
    """Do two models switch a layer on for the same pairs?"""
    with drawing(9, 1.5 + 0.46 * len(found)) as figure:
        axes = figure.subplots()
        _layer_cells(axes, np.stack([each.correlation for each in found]), channels, SIGNED_COLOURS, (-1, 1))
        _name_rows(axes, found)
        colour_bar(figure, axes, "correlation", aspect=10)
        png, svg = render(figure)
    return Chart(
        name,
        f"Agreement beyond habit, {len(channels)} layers",
        "For each layer, the correlation over the pairs between one model's on or off and the other's: 1 if "
        "both switch it on for the same pairs. A dot: a model has it always on or always off, and no "
        "correlation exists.",
        ("first", "second", "pairs", *(f"correlation {layer}" for layer in range(len(channels)))),
        tuple(
            (each.first, each.second, each.pairs, *np.round(each.correlation, 6).tolist()) for each in found
        ),
        png,
        svg,
        wide=True,
    )


def _layer_cells(
    axes: Axes, values: Floats, channels: Sequence[int], colours: str, limits: tuple[float, float]
) -> None:
    """A cell for each value (M, L); a dot where there is none."""
    rows, columns = values.shape
    edges = np.arange(columns + 1) - 0.5, np.arange(rows + 1) - 0.5
    low, high = limits
    mesh = axes.pcolormesh(*edges, np.ma.masked_invalid(values), cmap=colours, vmin=low, vmax=high)
    mesh.set(edgecolor=CARD, linewidth=0.4)
    empty_rows, empty_columns = np.nonzero(np.isnan(values))
    axes.plot(empty_columns, empty_rows, ".", markersize=3, color=SOFT)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labelleft=False)
    layer_axis(axes, channels)


def _name_rows(axes: Axes, found: Sequence[Agreement]) -> None:
    """Two models a row, the first row above."""
    axes.set_yticks(range(len(found)), [f"{each.first}\n{each.second}" for each in found])
    axes.tick_params(axis="y", length=0, labelleft=True, labelcolor=INK)
    axes.invert_yaxis()


def quality_against_time(timed: Mapping[str, tuple[Quality, Timing]]) -> Chart:
    """Figure 3a: PCK against the time per pair, a point for each model that could be scored."""
    metric = next(iter(timed.values()))[0].metric
    rows: list[Row] = []
    with drawing(7, 3.6) as figure:
        axes = figure.subplots()
        # Names beside the points would cover each other where models are alike.
        looks = zip(cycle(POINT_COLOURS), cycle(POINT_SHAPES), strict=False)
        for (label, (quality, timing)), (colour, shape) in zip(timed.items(), looks, strict=False):
            if quality.value is None:
                continue
            x, (left, right) = timing.median, timing.quartiles
            y, (low, high) = quality.value, quality.interval or (quality.value, quality.value)
            axes.plot([left, right], [y, y], color=SOFT, linewidth=1)
            axes.plot([x, x], [low, high], color=SOFT, linewidth=1)
            axes.plot(x, y, shape, color=colour, markersize=8, label=label)
            figures = (round(figure, 4) for figure in (y, low, high, x, left, right))
            rows.append((label, *figures, len(timing.milliseconds)))
        axes.set_xlabel("milliseconds per pair")
        axes.set_ylabel(f"{metric}, %")
        axes.grid(linewidth=0.8)
        axes.margins(0.1)
        low, high = axes.get_ylim()
        axes.set_ylim(max(low, 0), min(high, 101))
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), labelspacing=0.9)
        png, svg = render(figure)
    names = (metric, "low", "high", "median ms", "first quartile ms", "third quartile ms", "pairs timed")
    return Chart(
        "quality_against_time",
        f"{metric} against time per pair",
        f"Across: the median time and where the middle half of the times lies. Upright: the {CONFIDENCE} % "
        "interval. Times were measured in this run, all models in turn on the same pairs; they hold for this "
        "machine.",
        ("model", *names),
        tuple(rows),
        png,
        svg,
    )
