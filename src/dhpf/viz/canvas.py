"""What all drawings are made of: panels side by side, marks that stand out, captions and a legend.

Pictures are drawn SUPERSAMPLING times too large and shrunk at the end: smooth lines without a drawing
library. Places and lengths are given in pixels of the finished drawing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from .colours import Colour, colours

HEIGHT = 480  # pixels of each photo in the drawing ...
WIDEST = 1440  # ... unless it would become wider than that
GAP = 12
LINE = 22  # from one line of text to the next
LETTERS = 13
SUPERSAMPLING = 2
SYMBOL = (24, 20)  # width and height of a mark in the legend
BAR = (100, 12)

Place: TypeAlias = Sequence[float] | NDArray[np.float64]  # x, y
Radius: TypeAlias = float | NDArray[np.float64]  # one, or one along x and one along y


class Entry(NamedTuple):
    """A part of a line of the legend."""

    text: str
    symbol: Image.Image | None = None


class Pen:
    """Marks with a white and a black edge, which stand out from any photo."""

    def __init__(self, picture: Image.Image) -> None:
        self._draw = ImageDraw.Draw(picture)
        self._size = picture.width / SUPERSAMPLING, picture.height / SUPERSAMPLING

    def line(self, start: Place, end: Place, colour: Colour) -> None:
        """A straight line."""
        ends = [tuple(np.multiply(place, SUPERSAMPLING)) for place in (start, end)]
        for width, paint in ((5.5, "black"), (4.5, "white"), (2.5, colour)):
            self._draw.line(ends, fill=paint, width=round(width * SUPERSAMPLING))

    def dot(self, place: Place, colour: Colour) -> None:
        """A filled circle."""
        for radius, paint in ((7, "black"), (6, "white"), (4, colour)):
            self._draw.ellipse(self._box(place, radius), fill=paint)

    def diamond(self, place: Place, colour: Colour) -> None:
        """A filled square that stands on a corner."""
        x, y = np.multiply(place, SUPERSAMPLING)
        for half, paint in ((9.0, "black"), (7.8, "white"), (5.2, colour)):
            r = half * SUPERSAMPLING
            self._draw.polygon([(x, y - r), (x + r, y), (x, y + r), (x - r, y)], fill=paint)

    def ring(self, place: Place, radius: Radius) -> None:
        """A white circle or, with two radii, an ellipse, edged in black on both sides."""
        for outer, width, paint in ((1.75, 3.5, "black"), (0.75, 1.5, "white")):
            self._draw.ellipse(
                self._box(place, radius + outer), outline=paint, width=round(width * SUPERSAMPLING)
            )

    def number(self, place: Place, number: int) -> None:
        """A white number with a black edge: above the place to its right, or on the side that has room."""
        right, above = place[0] < self._size[0] - 24, place[1] > 24
        x, y = place[0] + (6 if right else -6), place[1] + (-6 if above else 6)
        anchor = ("l" if right else "r") + ("s" if above else "t")
        write(self._draw, (x, y), str(number), anchor, fill="white", stroke_width=2 * SUPERSAMPLING)

    def _box(self, place: Place, radius: Radius) -> list[float]:
        centre = np.asarray(place, np.float64)
        return [float(side) for side in np.concatenate([centre - radius, centre + radius]) * SUPERSAMPLING]


def write(
    draw: ImageDraw.ImageDraw,
    place: Place,
    text: str,
    anchor: str,
    *,
    size: float = LETTERS,
    fill: str = "black",
    stroke_width: int = 0,
) -> None:
    """All text of all drawings goes through here."""
    font = ImageFont.load_default(size * SUPERSAMPLING)
    where = place[0] * SUPERSAMPLING, place[1] * SUPERSAMPLING
    draw.text(where, text, fill, font, anchor, stroke_width=stroke_width, stroke_fill="black")


def text_width(text: str) -> float:
    """Width of a text in letters of the usual size."""
    return ImageFont.load_default(LETTERS * SUPERSAMPLING).getlength(text) / SUPERSAMPLING


def drawing_size(photo: tuple[int, int]) -> tuple[int, int]:
    """Width and height of a photo in the drawing."""
    width, height = photo
    scale = min(HEIGHT / height, WIDEST / width)
    return max(1, round(width * scale)), max(1, round(height * scale))


def enlarged(size: tuple[int, int]) -> tuple[int, int]:
    """The size in which something is drawn before the drawing is shrunk."""
    return size[0] * SUPERSAMPLING, size[1] * SUPERSAMPLING


def panel(photo: Image.Image) -> Image.Image:
    """A photo, to be drawn on."""
    return photo.resize(enlarged(drawing_size(photo.size)), Image.Resampling.LANCZOS)


def placed(points: NDArray[np.float64], photo: tuple[int, int]) -> NDArray[np.float64]:
    """Points (K, 2), in pixels of a photo of that size -> in pixels of its panel."""
    return points * (np.array(drawing_size(photo)) / photo)


def in_pixels(length: float) -> str:
    """A length for people: three figures are enough, or all before the point."""
    return f"{length:.3g} px" if length < 100 else f"{length:.0f} px"


def symbol(mark: Callable[[Pen, Place], None]) -> Image.Image:
    """A mark for the legend."""
    picture = Image.new("RGB", enlarged(SYMBOL), "white")
    mark(Pen(picture), (SYMBOL[0] / 2, SYMBOL[1] / 2))
    return picture


def confidence_bar() -> Image.Image:
    """The colours of confidence, from low to high."""
    width, height = enlarged(BAR)
    return Image.fromarray(np.tile(colours(np.linspace(0, 1, width)), (height, 1, 1)))


def sheet(
    panels: Sequence[Image.Image], legend: Sequence[Sequence[Entry]], captions: Sequence[str] = ()
) -> Image.Image:
    """Panels side by side, with a caption below each, and the lines of the legend below all."""
    s = SUPERSAMPLING
    widths = [picture.width + GAP * s for picture in panels]
    height = max(picture.height for picture in panels) // s
    rows = len(legend) + (1 if captions else 0)
    canvas = Image.new("RGB", (sum(widths) - GAP * s, (height + GAP + rows * LINE) * s), "white")
    lefts = list(accumulate(widths[:-1], initial=0))
    for left, picture in zip(lefts, panels, strict=True):
        canvas.paste(picture, (left, 0))
    top = height + GAP
    if captions:
        for left, picture, caption in zip(lefts, panels, captions, strict=True):
            room = picture.width / s
            _line(canvas, left / s, top, [Entry(caption)], room, centred=True)
        top += LINE
    for row, entries in enumerate(legend):
        _line(canvas, GAP, top + row * LINE, entries, canvas.width / s - 2 * GAP)
    return canvas


def _line(
    canvas: Image.Image, left: float, top: float, entries: Sequence[Entry], room: float, centred: bool = False
) -> None:
    """Symbols and texts in a row, the letters as large as there is room."""
    s = SUPERSAMPLING
    draw, lengths = ImageDraw.Draw(canvas), [text_width(entry.text) for entry in entries]
    fixed = sum(e.symbol.width / s + GAP for e in entries if e.symbol) + (len(entries) - 1) * 2 * GAP
    share = min(1.0, max(0.3, (room - fixed) / max(sum(lengths), 1)))
    if centred:
        left += max(0.0, room - fixed - sum(lengths) * share) / 2
    for entry, length in zip(entries, lengths, strict=True):
        if entry.symbol is not None:
            canvas.paste(entry.symbol, (round(left * s), round((top + 6) * s - entry.symbol.height / 2)))
            left += entry.symbol.width / s + GAP
        write(draw, (left, top + 6), entry.text, "lm", size=LETTERS * share)
        left += length * share + 2 * GAP


def shrunk(canvas: Image.Image) -> Image.Image:
    """The finished drawing."""
    size = canvas.width // SUPERSAMPLING, canvas.height // SUPERSAMPLING
    return canvas.resize(size, Image.Resampling.LANCZOS)
