"""Draw the charts of the documentation from the records of the benchmarks: ``python docs/tools/charts.py``.

``reliability.png``: what a confidence of the default model is worth (``benchmarks.held_out``).
``layer_rates.png``: accuracy against time by the rate of layers (``benchmarks.ablation``).
``references.png``: the accuracy of label transfer by the number of references (``benchmarks.annotate``).
It needs matplotlib.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from dhpf.zoo import DEFAULT_MODEL

ROOT = Path(__file__).parents[2]
BLUE = "#21618c"


def main() -> None:
    """Draw all."""
    save(reliability(record(f"held_out_{DEFAULT_MODEL}")["reliability"]), "reliability")
    save(references(record("annotate_accuracy")), "references")
    save(layer_rates(record("ablation")), "layer_rates")


def record(name: str) -> Any:
    """The result of a benchmark."""
    path = ROOT / "benchmarks" / "results" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))["result"]


def chart(**texts: str) -> tuple[Figure, Any]:
    """An empty figure and its axes."""
    figure = Figure(figsize=(5.2, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes: Any = figure.subplots()
    axes.set(**texts)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def reliability(bins: list[dict[str, float]]) -> Figure:
    """Fraction that is right over confidence: a dot a bin, its points by size and number."""
    confidence, right, points = ([one[key] for one in bins] for key in ("confidence", "right", "points"))
    figure, axes = chart(
        xlabel="confidence",
        ylabel="fraction right within 0.1 of the object",
        title=f"{DEFAULT_MODEL}, {sum(points):,} points of held-out pairs",
    )
    axes.plot([0, 1], [0, 1], color="grey", linewidth=1, linestyle="--", label="as it should be")
    axes.plot(confidence, right, color=BLUE)
    sizes = [20 + 400 * count / sum(points) for count in points]
    axes.scatter(confidence, right, s=sizes, color=BLUE, label="measured, with the number of points")
    for x, y, count in zip(confidence, right, points, strict=True):
        axes.annotate(str(count), (x, y), xytext=(8, -12), textcoords="offset points", fontsize=8)
    axes.set(xlim=(0, 1.05), ylim=(0, 1.05), aspect="equal")
    axes.legend(loc="upper left", frameon=False, fontsize=8)
    return figure


def references(found: Any) -> Figure:
    """PCK over the number of references, a line a category."""
    figure, axes = chart(
        xlabel="references",
        ylabel="PCK at 0.1 of the box, percent",
        title=f"Label transfer with {found['model']}, VOC keypoints",
    )
    counts = [key for key in found["mean"] if key.isdecimal()]
    rows = {
        **found["pck"],
        "mean": found["mean"],
        "unseen photos": found["photos that training has not seen"],
    }
    places = range(len(counts))
    for name, row in rows.items():
        style = {"mean": "k-", "unseen photos": "k--"}.get(name, "-")
        values = [row[count] for count in counts]
        axes.plot(
            places, values, style, marker="o", markersize=4, linewidth=2 if "k" in style else 1.2, label=name
        )
    axes.set_xticks(places, counts)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8, ncols=2)
    return figure


def layer_rates(rows: Any) -> Figure:
    """PCK over the time for a pair, by the rate of layers: the paper's Figure 3a."""
    figure, axes = chart(
        xlabel="milliseconds for two new photos, ResNet-50, two cores",
        ylabel="PCK, percent",
        title="PF-PASCAL test pairs, by the rate of layers",
    )
    names = {"mu-0.3": "mu = 0.3", "mu-0.4": "mu = 0.4", "mu-0.5": "mu = 0.5", "all-layers": "all layers"}
    shown = sorted(
        ((rows[name], text) for name, text in names.items()), key=lambda one: one[0]["milliseconds"]
    )
    times = [row["milliseconds"] for row, _ in shown]
    for alpha, style in (("0.1", "-"), ("0.05", "--")):
        values = [row["pck"][alpha] for row, _ in shown]
        axes.plot(times, values, style, marker="o", color=BLUE, label=f"at {alpha}")
        for time, value, (row, text) in zip(times, values, shown, strict=True):
            label = f"{text}\n{row['layers']:.1f} layers"
            axes.annotate(
                label, (time, value), xytext=(0, -22), textcoords="offset points", fontsize=7, ha="center"
            )
    axes.margins(0.2)
    axes.legend(frameon=False, fontsize=8, loc="center left")
    return figure


def save(figure: Figure, name: str) -> None:
    """Into the documentation."""
    figure.savefig(ROOT / "docs" / "images" / f"{name}.png", dpi=110)


if __name__ == "__main__":
    main()
