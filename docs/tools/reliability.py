"""Draw what a confidence is worth: ``python docs/tools/reliability.py [MODEL]``.

From the record of ``benchmarks.held_out`` to ``docs/images/reliability.png``; it needs matplotlib.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from dhpf.zoo import DEFAULT_MODEL

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "benchmarks" / "results" / "held_out.json"


def draw(bins: list[dict[str, float]], title: str) -> Figure:
    """Fraction that is right over confidence: a dot a bin, its points by size and number."""
    figure = Figure(figsize=(4.6, 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes: Any = figure.subplots()
    confidence, right, points = ([one[key] for one in bins] for key in ("confidence", "right", "points"))
    axes.plot([0, 1], [0, 1], color="grey", linewidth=1, linestyle="--", label="as it should be")
    axes.plot(confidence, right, color="#21618c", linewidth=1.5)
    axes.scatter(
        confidence, right, s=[20 + 400 * n / sum(points) for n in points], color="#21618c", label="measured"
    )
    for x, y, count in zip(confidence, right, points, strict=True):
        axes.annotate(f"{count:.0f}", (x, y), xytext=(7, -11), textcoords="offset points", fontsize=8)
    axes.set(
        xlim=(0, 1.02),
        ylim=(0, 1.02),
        aspect="equal",
        xlabel="confidence",
        ylabel="right within 0.1 of the object",
        title=title,
    )
    axes.legend(loc="upper left", frameon=False)
    return figure


def main() -> None:
    """Draw the named model, or the default."""
    model = sys.argv[1] if len(sys.argv) > 1 else DEFAULT_MODEL
    bins = json.loads(RECORD.read_text(encoding="utf-8"))["result"]["reliability"][model]
    total = sum(one["points"] for one in bins)
    figure = draw(bins, f"{model}: {total:,} points of held-out pairs")
    figure.savefig(ROOT / "docs" / "images" / "reliability.png", dpi=130)


if __name__ == "__main__":
    main()
