"""What all drawings are made of: panels side by side, marks that stand out, captions and a legend.

Pictures are drawn SUPERSAMPLING times too large and shrunk at the end: smooth lines without a drawing
library. Locations and lengths are in pixels of the finished drawing; pixel centres lie at whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from operator import itemgetter
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from ..grid import resize_points
from .colours import Colour, colours

HEIGHT = 480  # pixels of each image in the drawing ...
WIDEST = 1440  # ... unless it would become wider than that
GAP = 12
LINE = 22  # from one line of text to the next
LETTERS = 13
SUPERSAMPLING = 2
SYMBOL = (24, 20)  # width and height of a mark in the legend
BAR = (100, 12)
DOT = 7  # radius
NEAR = 6  # from a point to its label, along x and y

Location: TypeAlias = Sequence[float] | NDArray[np.float64]  # x, y
Radius: TypeAlias = float | NDArray[np.float64]  # one, or one along x and one along y


class Entry(NamedTuple):
    """A part of a line of the legend."""

    text: str
    symbol: Image.Image | None = None


class Pen:
    """Marks with a white and a black edge, which stand out from any image."""

    def __init__(self, picture: Image.Image) -> None:
        self._draw = ImageDraw.Draw(picture)

    def line(self, start: Location, end: Location, colour: Colour) -> None:
        """A straight line."""
        ends = [tuple(np.rint(_enlarged_location(location)).tolist()) for location in (start, end)]
        for width, paint in ((4.5, "black"), (3.5, "white"), (2.5, colour)):
            self._draw.line(ends, fill=paint, width=round(width * SUPERSAMPLING))

    def dot(self, location: Location, colour: Colour) -> None:
        """A filled circle."""
        for radius, paint in ((DOT, "black"), (DOT - 1, "white"), (DOT - 2.5, colour)):
            self._draw.ellipse(_ellipse(location, radius), fill=paint)

    def diamond(self, location: Location, colour: Colour) -> None:
        """A filled square that stands on a corner."""
        x, y = np.rint(_enlarged_location(location)).tolist()
        for half, paint in ((9.0, "black"), (7.8, "white"), (5.2, colour)):
            r = round(half * SUPERSAMPLING)
            self._draw.polygon([(x, y - r), (x + r, y), (x, y + r), (x - r, y)], fill=paint)

    def ring(self, location: Location, radius: Radius) -> None:
        """A white circle or, with two radii, an ellipse, edged in black on both sides."""
        for outer, width, paint in ((1.75, 3.5, "black"), (0.75, 1.5, "white")):
            self._draw.ellipse(
                _ellipse(location, radius + outer), outline=paint, width=round(width * SUPERSAMPLING)
            )

    def labels(
        self, points: NDArray[np.float64], texts: Sequence[str], size: tuple[int, int], left: int = 0
    ) -> None:
        """White texts with a black edge, each beside its point (K, 2), where it covers as little as can be.

        Parameters
        ----------
        size, left
            Width and height of the panel of the points, and where it begins; labels stay inside.
        """
        right, bottom = left + size[0], size[1]
        covered = [Box(x - DOT, y - DOT, x + DOT, y + DOT) for x, y in points.tolist()]
        for (x, y), text in zip(points.tolist(), texts, strict=True):
            width, height = text_width(text) + 2, LETTERS - 1
            choices = []
            for anchor, across, down in (("ls", 1, -1), ("rs", -1, -1), ("lt", 1, 1), ("rt", -1, 1)):
                xs = sorted((x + across * NEAR, x + across * (NEAR + width)))
                ys = sorted((y + down * NEAR, y + down * (NEAR + height)))
                box = Box(xs[0], ys[0], xs[1], ys[1])
                outside = box.left < left or box.top < 0 or box.right > right or box.bottom > bottom
                hidden = sum(box.overlap(other) for other in covered)
                choices.append((10 * len(covered) * outside + hidden, anchor, box))
            _, anchor, box = min(choices, key=itemgetter(0))
            covered.append(box)
            corner = box.left if anchor[0] == "l" else box.right, box.bottom if anchor[1] == "s" else box.top
            write(self._draw, corner, text, anchor, fill="white", stroke_width=2 * SUPERSAMPLING)


class Box(NamedTuple):
    """What a mark covers."""

    left: float
    top: float
    right: float
    bottom: float

    def overlap(self, other: Box) -> float:
        """The fraction of it that lies in another box."""
        across = min(self.right, other.right) - max(self.left, other.left)
        down = min(self.bottom, other.bottom) - max(self.top, other.top)
        area = (self.right - self.left) * (self.bottom - self.top)
        return max(across, 0.0) * max(down, 0.0) / area


def _enlarged_location(location: Location) -> NDArray[np.float64]:
    """A location of the finished drawing in pixels of the enlarged one; centres are whole numbers in both."""
    return (np.asarray(location, np.float64) + 0.5) * SUPERSAMPLING - 0.5


def _ellipse(location: Location, radius: Radius) -> list[float]:
    """First and last column and row of an ellipse, as Pillow counts them: whole pixels, both included.

    Halves are rounded up, not to even numbers, so that ellipses inside each other move together.
    """
    across = np.floor(2 * np.asarray(radius) * SUPERSAMPLING + 0.5)
    first = np.floor(_enlarged_location(location) - (across - 1) / 2 + 0.5)
    return [float(side) for side in np.concatenate([first, first + across - 1])]


def write(
    draw: ImageDraw.ImageDraw,
    location: Location,
    text: str,
    anchor: str,
    *,
    size: float = LETTERS,
    fill: str = "black",
    stroke_width: int = 0,
) -> None:
    """All text of all drawings goes through here."""
    font = ImageFont.load_default(size * SUPERSAMPLING)
    where = location[0] * SUPERSAMPLING, location[1] * SUPERSAMPLING
    draw.text(where, text, fill, font, anchor, stroke_width=stroke_width, stroke_fill="black")


def text_width(text: str) -> float:
    """Width of a text in letters of the usual size."""
    return ImageFont.load_default(LETTERS * SUPERSAMPLING).getlength(text) / SUPERSAMPLING


def drawing_size(image: tuple[int, int]) -> tuple[int, int]:
    """Width and height of an image in the drawing."""
    width, height = image
    scale = min(HEIGHT / height, WIDEST / width)
    return max(1, round(width * scale)), max(1, round(height * scale))


def enlarged(size: tuple[int, int]) -> tuple[int, int]:
    """The size in which something is drawn before the drawing is shrunk."""
    return size[0] * SUPERSAMPLING, size[1] * SUPERSAMPLING


def panel(image: Image.Image) -> Image.Image:
    """An image, to be drawn on."""
    return image.resize(enlarged(drawing_size(image.size)), Image.Resampling.LANCZOS)


def placed(points: NDArray[np.float64], image: tuple[int, int]) -> NDArray[np.float64]:
    """Points (K, 2), in pixels of an image of that size -> in pixels of its panel."""
    return resize_points(points, image, drawing_size(image))


def in_pixels(length: float) -> str:
    """A length for people: three figures are enough, or all before the point."""
    return f"{length:.3g} px" if length < 100 else f"{length:.0f} px"


def symbol(mark: Callable[[Pen, Location], None]) -> Image.Image:
    """A mark for the legend."""
    picture = Image.new("RGB", enlarged(SYMBOL), "white")
    mark(Pen(picture), ((SYMBOL[0] - 1) / 2, (SYMBOL[1] - 1) / 2))
    return picture


def confidence_scale(highest: str) -> list[Entry]:
    """The colours of confidence from 0 to ``highest``, for the legend."""
    width, height = enlarged(BAR)
    bar = Image.fromarray(np.tile(colours(np.linspace(0, 1, width)), (height, 1, 1)))
    return [Entry("confidence 0"), Entry(highest, bar)]


def sheet(
    panels: Sequence[Image.Image], legend: Sequence[Sequence[Entry]], captions: Sequence[str] = ()
) -> Image.Image:
    """Panels side by side, with a caption below each if there are any, and the lines of the legend."""
    s = SUPERSAMPLING
    widths = [picture.width + GAP * s for picture in panels]
    height = max(picture.height for picture in panels) // s
    rows = len(legend) + (1 if captions else 0)
    canvas = Image.new("RGB", (sum(widths) - GAP * s, (height + GAP + rows * LINE) * s), "white")
    lefts = list(accumulate(widths[:-1], initial=0))
    for left, picture in zip(lefts, panels, strict=True):
        canvas.paste(picture, (left, 0))
    for left, picture, caption in zip(lefts, panels, captions, strict=bool(captions)):
        _line(canvas, left / s, height + GAP, [Entry(caption)], picture.width / s)
    for row, entries in enumerate(legend, start=1 if captions else 0):
        _line(canvas, 0, height + GAP + row * LINE, entries, canvas.width / s)
    return canvas


def _line(canvas: Image.Image, left: float, top: float, entries: Sequence[Entry], room: float) -> None:
    """Symbols and texts in a row, with a margin; the letters are as large as there is room."""
    s = SUPERSAMPLING
    draw, lengths = ImageDraw.Draw(canvas), [text_width(entry.text) for entry in entries]
    fixed = sum(e.symbol.width / s + GAP for e in entries if e.symbol) + (len(entries) + 1) * GAP
    fraction = min(1.0, max(0.3, (room - fixed) / max(sum(lengths), 1)))
    left += GAP
    for entry, length in zip(entries, lengths, strict=True):
        if entry.symbol is not None:
            canvas.paste(entry.symbol, (round(left * s), round((top + 6) * s - entry.symbol.height / 2)))
            left += entry.symbol.width / s + GAP
        write(draw, (left, top + 6), entry.text, "lm", size=LETTERS * fraction)
        left += length * fraction + GAP


def shrunk(canvas: Image.Image) -> Image.Image:
    """The finished drawing."""
    size = canvas.width // SUPERSAMPLING, canvas.height // SUPERSAMPLING
    return canvas.resize(size, Image.Resampling.LANCZOS)
