"""The paper's figures: layers by category (3b, 3c, 7), layer frequencies, numbers of layers (4), speed (3a).

P pairs  L layers, of any number
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle

import numpy as np

from ..evaluate.breakdown import CONFIDENCE
from .charts import BLUE, FREQUENCY_COLOURS, GREEN, GREY, PURPLE, SOFT, VERMILION, Chart, Row, drawing, render
from .study import Booleans, Floats, ModelStudy, numbered

POINT_COLOURS = BLUE, VERMILION, GREEN, PURPLE, GREY
POINT_SHAPES = "os^DvPX"  # as many shapes as colours would give every shape one colour


def draw_figures(models: Sequence[ModelStudy]) -> list[Chart]:
    """All figures that there are numbers for: models side by side first, then one by one."""
    charts = []
    if any(model.accuracy and model.milliseconds is not None for model in models):
        charts.append(accuracy_against_time(models))
    choosing = [model for model in models if model.layers is not None]
    if choosing:
        charts += [layer_frequency(choosing), layer_counts(choosing)]
    for number, model in enumerate(models, 1):
        which = numbered(number, model.label)
        if model.layers is not None:
            caption = (
                "In how many percent of a category's pairs each layer was on; after the name, the pairs."
            )
            charts.append(by_category(model, model.layers, f"layers_by_category-{which}", "Layers", caption))
        if model.gates is not None:
            caption = (
                "The mean over a category's pairs of each gate's probability to be on, in percent; of soft "
                "gates, the weight. Gates that always decide alike are dark or bright."
            )
            charts.append(by_category(model, model.gates, f"gates_by_category-{which}", "Gates", caption))
    return charts


def by_category(model: ModelStudy, values: Booleans | Floats, file: str, what: str, caption: str) -> Chart:
    """Means of ``values`` (P, L) over the pairs of each category: cells of layers and categories."""
    groups = list(model.groups())
    grid = np.stack([values[members].mean(axis=0) for *_, members in groups])  # (groups, L)
    height = 1.2 + 0.19 * len(groups)
    with drawing(max(5.0, 2.4 + 0.25 * grid.shape[1]), height) as figure:
        axes = figure.subplots()
        axes.grid(visible=False)
        mesh = axes.imshow(100 * grid, cmap=FREQUENCY_COLOURS, vmin=0, vmax=100, aspect="auto")
        names = [f"{group}  {members.sum()}" for _, group, members in groups]
        for tick, name in zip(axes.set_yticks(range(len(groups)), names), names, strict=True):
            tick.label1.set_fontweight("bold" if name.startswith("all ") else "normal")
        for place in range(1, len(groups)):
            if groups[place][0] != groups[place - 1][0]:
                axes.axhline(place - 0.5, color="white", linewidth=3)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_xticks(_ticks(grid.shape[1]))
        axes.set_xlabel("layer")
        axes.set_title(model.label)
        figure.colorbar(mesh, ax=axes, label="%", shrink=min(1.0, 2.4 / height), aspect=18, pad=0.02)
        png, svg = render(figure)
    rows = (
        (model.label, kind, group, int(members.sum()), *np.round(row, 6).tolist())
        for (kind, group, members), row in zip(groups, grid, strict=True)
    )
    columns = "model", "kind", "category", "pairs", *(f"layer {layer}" for layer in range(grid.shape[1]))
    return Chart(file, f"{what} by category: {model.label}", caption, columns, tuple(rows), png, svg)


def _ticks(count: int) -> range:
    """Numbers from 0 on, at most 20 of them."""
    return range(0, count, -(-count // 20))


def layer_frequency(models: Sequence[ModelStudy]) -> Chart:
    """Figure 3c: how often each layer was on."""
    return _bars(
        models,
        lambda layers: 100 * layers.mean(axis=0),
        "layer_frequency",
        "How often each layer is chosen",
        "In how many percent of the pairs each layer was on.",
        ("layer", "% of the pairs"),
    )


def layer_counts(models: Sequence[ModelStudy]) -> Chart:
    """Figure 4: for how many pairs so many layers were on."""
    return _bars(
        models,
        lambda layers: np.bincount(layers.sum(axis=1), minlength=layers.shape[1] + 1).astype(np.float64),
        "layer_counts",
        "Number of chosen layers",
        "For how many pairs so many layers were on; in brackets, the mean.",
        ("layers on", "pairs"),
    )


def _bars(
    models: Sequence[ModelStudy],
    values_of: Callable[[Booleans], Floats],
    name: str,
    title: str,
    caption: str,
    labels: tuple[str, str],
) -> Chart:
    """A row of bars for each model, of values that follow from its layers (P, L)."""
    rows: list[Row] = []
    with drawing(7, 0.6 + 1.6 * len(models)) as figure:
        for axes, model in zip(figure.subplots(len(models), 1, squeeze=False)[:, 0], models, strict=True):
            layers = np.asarray(model.layers)
            values = values_of(layers)
            axes.bar(range(len(values)), values, color=BLUE)
            axes.set_title(f"{model.label} ({layers.sum(axis=1).mean():.1f} of {layers.shape[1]} layers)")
            axes.set_xlabel(labels[0])
            axes.set_ylabel(labels[1])
            axes.set_xticks(_ticks(len(values)))
            axes.locator_params(axis="y", integer=True)
            rows += [(model.label, place, round(value, 4)) for place, value in enumerate(values.tolist())]
        png, svg = render(figure)
    return Chart(name, title, caption, ("model", *labels), tuple(rows), png, svg)


def accuracy_against_time(models: Sequence[ModelStudy]) -> Chart:
    """Figure 3a: accuracy against the time per pair, a point for each model that has both."""
    metric = models[0].metric
    rows: list[Row] = []
    with drawing(7, 3.6) as figure:
        axes = figure.subplots()
        # Names beside the points would cover each other where models are alike.
        looks = zip(cycle(POINT_COLOURS), cycle(POINT_SHAPES), strict=False)
        for model, (colour, shape) in zip(models, looks, strict=False):
            if model.accuracy is None or model.milliseconds is None:
                continue
            left, x, right = np.percentile(model.milliseconds, [25, 50, 75]).tolist()
            y = model.accuracy.values[-1]
            low, high = model.accuracy.intervals[-1] if model.accuracy.intervals else (y, y)
            axes.plot([left, right], [y, y], color=SOFT, linewidth=1)
            axes.plot([x, x], [low, high], color=SOFT, linewidth=1)
            axes.plot(x, y, shape, color=colour, markersize=8, label=model.label)
            numbers = (round(number, 4) for number in (y, low, high, x, left, right))
            rows.append((model.label, *numbers, len(model.milliseconds)))
        axes.set_xlabel("milliseconds per pair")
        axes.set_ylabel(f"{metric}, %")
        axes.grid(axis="both")
        axes.margins(0.1)
        low, high = axes.get_ylim()
        axes.set_ylim(max(low, 0), min(high, 101))
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), labelspacing=0.9)
        png, svg = render(figure)
    names = (metric, "low", "high", "median ms", "first quartile ms", "third quartile ms", "pairs timed")
    caption = (
        f"Across: the median time and where the middle half of the times lies. Upright: the {CONFIDENCE} % "
        "interval. Times were measured in this run, all models in turn on the same pairs; they hold for this "
        "machine."
    )
    title = f"{metric} against time per pair"
    return Chart("accuracy_against_time", title, caption, ("model", *names), tuple(rows), png, svg)
