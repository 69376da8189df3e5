"""Figures of what models chose: layers by category, numbers of layers, width of the hyperimage.

L layers  C categories
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .categories import group_of
from .charts import CARD, GROUP_COLOURS, INK, SOFT, Chart, Row, colour_bar, drawing, layer_axis, render
from .selection import ALL, Booleans, Floats, Selection

if TYPE_CHECKING:
    from matplotlib.artist import Artist

SHARE_COLOURS = "cividis"  # rises in brightness, and looks alike to every kind of colour vision


def layers_by_category(selection: Selection, name: str) -> Chart:
    """Figure 3b: how often each layer was on, a row for each category."""
    return _by_category(
        selection,
        name,
        "on in % of the pairs",
        f"Layers by category: {selection.label}",
        "In how many percent of a category's pairs each layer was on; after the name, the number of pairs. "
        "Above, the channels of the backbone's stages: early, detailed layers are left, late ones right.",
        selection.frequency,
    )


def gates_by_category(selection: Selection, name: str) -> Chart:
    """Figure 7: how sure the gates were; of soft gates, how much each layer weighs."""
    return _by_category(
        selection,
        name,
        "mean gate, %",
        f"Gates by category: {selection.label}",
        "The mean over a category's pairs of each gate's probability to be on, in percent. Gates that always "
        "decide alike look dark or bright; one near 50 is undecided. Of soft gates it is the layer's weight.",
        selection.certainty,
    )


def _by_category(
    selection: Selection,
    name: str,
    unit: str,
    title: str,
    caption: str,
    shares: Callable[[Booleans], Floats | None],
) -> Chart:
    """Cells of layers and categories; each group of categories closes with its own row."""
    rows = [
        (group, category, int(members.sum()), shares(members))
        for group, category, members in _rows(selection)
    ]
    grid = np.stack([share for *_, share in rows if share is not None])  # (rows, L)
    height = 1.3 + 0.19 * len(rows)
    with drawing(max(5.5, 1.9 + 0.27 * grid.shape[1]), height) as figure:
        axes = figure.subplots()
        edges = np.arange(grid.shape[1] + 1) - 0.5, np.arange(len(rows) + 1) - 0.5
        mesh = axes.pcolormesh(*edges, 100 * grid, cmap=SHARE_COLOURS, vmin=0, vmax=100)
        mesh.set(edgecolor=CARD, linewidth=0.4)
        axes.set_yticks(range(len(rows)), [f"{category}  {pairs}" for _, category, pairs, _ in rows])
        for place, (tick, row) in enumerate(zip(axes.get_yticklabels(), rows, strict=True)):
            closing = row[1].startswith(f"{ALL} ")
            tick.set(color=INK, fontweight="bold" if closing else "normal")
            if closing:
                axes.axhline(place + 0.5, color=CARD, linewidth=4)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.invert_yaxis()
        layer_axis(axes, selection.channels)
        axes.set_title(selection.label, pad=16)
        colour_bar(figure, axes, unit, shrink=min(1.0, 2.4 / height))
        png, svg = render(figure)
    return Chart(
        name,
        title,
        caption,
        ("model", "group", "category", "pairs", *(f"layer {layer}" for layer in range(grid.shape[1]))),
        tuple(
            (selection.label, group, category, pairs, *np.round(share, 6).tolist())
            for (group, category, pairs, _), share in zip(rows, grid, strict=True)
        ),
        png,
        svg,
        wide=grid.shape[1] > 20,
    )


def _rows(selection: Selection) -> Iterator[tuple[str, str, Booleans]]:
    """Group, category and pairs (P,): the categories of each group, then the group, at last all pairs."""
    groups = selection.groups
    for group, members in groups.items():
        for category, own in selection.categories.items():
            if group_of(category) == group:
                yield group, category, own
        yield group, f"{ALL} {group}", members
    if len(groups) > 1:
        yield ALL, f"{ALL} pairs", np.ones(len(selection.layers), np.bool_)


def layer_counts(selections: Sequence[Selection]) -> Chart:
    """Figure 4: for how many pairs so many layers were on."""
    most = max(int(selection.counts.max()) for selection in selections)
    rows: list[Row] = []
    with drawing(7, 0.6 + 1.7 * len(selections)) as figure:
        grid = figure.subplots(len(selections), 1, squeeze=False, sharex=True)
        for axes, selection in zip(grid[:, 0], selections, strict=True):
            below = np.zeros(len(selection.channels) + 1)
            for group, members in selection.groups.items():
                pairs = selection.histogram(members)
                axes.bar(
                    range(len(pairs)),
                    pairs,
                    bottom=below,
                    width=0.8,
                    color=GROUP_COLOURS[group],
                    edgecolor=CARD,
                    linewidth=0.6,
                    label=f"{group}, mean {selection.counts[members].mean():.1f}",
                )
                below += pairs
                rows += [(selection.label, group, on, number) for on, number in enumerate(pairs.tolist())]
            mean = selection.counts.mean()
            axes.set_title(f"{selection.label}: {mean:.1f} of {len(selection.channels)} layers")
            axes.set_ylabel("pairs")
            axes.yaxis.get_major_locator().set_params(integer=True)
            axes.grid(axis="y", linewidth=0.8)
            axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        grid[-1, 0].set_xticks(range(0, most + 1, 1 if most <= 20 else 2))
        grid[-1, 0].set_xlim(-0.6, most + 0.6)
        grid[-1, 0].set_xlabel("layers on")
        png, svg = render(figure)
    return Chart(
        "layer_counts",
        "Number of chosen layers",
        "For how many pairs so many layers were on, by the kind of thing in the photos.",
        ("model", "group", "layers on", "pairs"),
        tuple(rows),
        png,
        svg,
    )


def dimensions(selections: Sequence[Selection]) -> Chart:
    """The average width of the hyperimage, of all pairs and of each kind of thing."""
    rows: list[Row] = []
    places, names = [], []
    keys: dict[str, Artist] = {}
    with drawing(7, 1.1 + 0.26 * sum(2 + len(selection.groups) for selection in selections)) as figure:
        axes = figure.subplots()
        place = 0.0
        for selection in selections:
            values, full = selection.dimensions, int(selection.widths.sum())
            everyone = {ALL: np.ones(len(values), np.bool_)}
            places.append(place)
            names.append(selection.label)
            for group, members in (everyone | selection.groups).items():
                mean = float(values[members].mean())
                colour = GROUP_COLOURS.get(group, SOFT)
                keys[group] = axes.barh(place, mean, height=0.8, color=colour)[0]
                axes.annotate(
                    f"{mean:.0f}", (mean, place), (4, 0), textcoords="offset points", va="center", fontsize=8
                )
                pairs = int(members.sum())
                rows.append((selection.label, group, pairs, round(mean, 3), full, round(mean / full, 6)))
                place += 1
            place += 0.8
        axes.set_yticks(places, names)
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.set_ylim(place - 1.2, -0.7)
        axes.set_xlim(0, 1.12 * axes.dataLim.x1)
        axes.set_xlabel("channels of the hyperimage, mean over pairs")
        axes.legend(keys.values(), keys, loc="center left", bbox_to_anchor=(1.0, 0.5))
        png, svg = render(figure)
    return Chart(
        "dimension",
        "Width of the hyperimage",
        "Channels of the chosen layers together: all of a block's channels where they are used as they are, "
        "an eighth of them after a trained transformation.",
        ("model", "group", "pairs", "mean dimension", "of all layers", "share"),
        tuple(rows),
        png,
        svg,
    )
