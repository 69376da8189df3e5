"""Charts: a matplotlib figure as PNG and SVG, the same bytes for the same numbers, with its data as CSV."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import InputError
from ..files import csv_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cell: TypeAlias = str | int | float | None
Row: TypeAlias = tuple[Cell, ...]

# Okabe and Ito's palette for every kind of colour vision.
BLUE, VERMILION, GREEN, PURPLE, GREY = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8c8c86"
SOFT = "#62625d"
FREQUENCY_COLOURS = "cividis"  # rises in lightness, and looks alike to every kind of colour vision

STYLE: Any = {  # each release of matplotlib types it differently
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "font.size": 8,
    "axes.titlesize": 10,
    "legend.frameon": False,
    "grid.color": "#e3e2dd",
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
    """One figure, and the numbers in it."""

    name: str  # of its files
    title: str
    caption: str  # what it shows, and how to read it
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    png: bytes
    svg: str

    def files(self) -> dict[str, bytes]:
        """Their contents by name."""
        table = csv_text([self.columns, *self.rows])
        return {
            f"{self.name}.png": self.png,
            f"{self.name}.svg": self.svg.encode(),
            f"{self.name}.csv": table.encode(),
        }


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
    """An empty figure of that size in inches; everything is drawn inside."""
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
