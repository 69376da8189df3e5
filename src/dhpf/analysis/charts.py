"""Charts: a matplotlib figure as PNG and SVG, the same bytes for the same numbers, with its data as CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Cell: TypeAlias = str | int | float | None
Row: TypeAlias = tuple[Cell, ...]

# The colours of the page's style sheet. In the report they become its variables, light or dark.
CARD, INK, SOFT, LINE = "#ffffff", "#1c1c1a", "#62625d", "#e3e2dd"
VARIABLES = {CARD: "var(--card)", INK: "var(--ink)", SOFT: "var(--soft)", LINE: "var(--line)"}

# Okabe and Ito's palette for every kind of colour vision; these keep apart on white and on black.
BLUE, VERMILION, GREEN, PURPLE, GREY = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8c8c86"
GROUP_COLOURS = {"animals": VERMILION, "vehicles": BLUE, "man-made": GREEN, "other": GREY}

STYLE: Any = {  # each release of matplotlib types it differently
    "figure.facecolor": CARD,
    "axes.facecolor": CARD,
    "savefig.facecolor": CARD,
    "text.color": INK,
    "axes.labelcolor": SOFT,
    "axes.titlecolor": INK,
    "axes.edgecolor": LINE,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": SOFT,
    "ytick.labelcolor": SOFT,
    "grid.color": LINE,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib: the same layout everywhere
    "text.parse_math": False,  # a name may hold a dollar sign
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "dhpf",
    "hatch.linewidth": 0.8,
}
NO_METADATA: dict[str, Any] = dict.fromkeys(("Date", "Creator", "Format", "Type"))
DPI = 160


@dataclass(frozen=True)
class Chart:
    """One figure of a report, and the numbers in it."""

    name: str  # of its files
    title: str
    caption: str  # what it shows, and how to read it
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    png: bytes
    svg: str
    wide: bool = False  # too wide for half of a page

    @property
    def csv(self) -> str:
        """The numbers as a table; empty where there is none."""
        return to_csv(self.columns, self.rows)

    @property
    def inline(self) -> str:
        """The drawing for an HTML page that has the variables of the evaluation report's style sheet."""
        drawing = self.svg[self.svg.index("<svg ") :]
        for colour, variable in VARIABLES.items():
            drawing = drawing.replace(colour, variable)
        return drawing.replace(
            "<svg ", f'<svg class="chart" role="img" aria-label="{escape(self.title)}" ', 1
        )


def check_matplotlib() -> None:
    """Raise before any work if nothing can be drawn."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise InputError(
            "charts need matplotlib, which is not installed: pip install 'dhpf[plots]'"
        ) from None


@contextmanager
def drawing(width: float, height: float) -> Iterator[Figure]:
    """An empty figure of that size in inches, in the style of the report; everything is drawn inside."""
    check_matplotlib()
    from matplotlib import style
    from matplotlib.figure import Figure

    with style.context(["default", STYLE]):  # whatever the user's own settings are
        yield Figure(figsize=(width, height), layout="constrained")


def render(figure: Figure) -> tuple[bytes, str]:
    """PNG and SVG, without dates and versions."""
    png, svg = io.BytesIO(), io.StringIO()
    figure.savefig(png, format="png", dpi=DPI, metadata={"Software": None})
    figure.savefig(svg, format="svg", metadata=NO_METADATA)
    return png.getvalue(), svg.getvalue()


def to_csv(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """A table as text; None and NaN are empty cells."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(["" if missing(cell) else cell for cell in row] for row in rows)
    return text.getvalue()


def missing(cell: Cell) -> bool:
    """None, or not a number."""
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


def layer_axis(axes: Axes, channels: Sequence[int]) -> None:
    """Layers from left to right: their numbers below, the channels of each stage of the backbone above."""
    axes.set_xlim(-0.5, len(channels) - 0.5)
    axes.set_xticks(range(0, len(channels), 1 if len(channels) <= 20 else 2))
    axes.set_xlabel("layer")
    starts = [i for i in range(len(channels)) if i == 0 or channels[i] != channels[i - 1]]
    for start, stop in zip(starts, [*starts[1:], len(channels)], strict=True):
        if start:
            axes.axvline(start - 0.5, color=CARD, linewidth=2.5)
        # The base block alone is too narrow for a word.
        text = f"{channels[start]}" + (" channels" if stop - start > 4 else "")
        axes.text(
            (start + stop - 1) / 2,
            1.0,
            text,
            transform=axes.get_xaxis_transform(),
            ha="center",
            va="bottom",
            fontsize=7,
            color=SOFT,
        )


def colour_bar(figure: Figure, axes: Axes, label: str, shrink: float = 1.0, aspect: int = 18) -> None:
    """What the colours of the cells in ``axes`` mean."""
    bar = figure.colorbar(axes.collections[0], ax=axes, label=label, shrink=shrink, aspect=aspect, pad=0.02)
    bar.ax.spines[:].set_visible(False)
