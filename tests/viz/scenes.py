"""Matches made by hand, with all that drawings ask of a match and nothing else; and one in every style.

The golden pictures show the last. Everything about it is a fraction of a power of two, so that every CPU
computes the same. After a change that is meant, ``python -m tests.viz.scenes`` makes them anew. Look at them
before they are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from dhpf import Match
from dhpf.grid import Grid
from dhpf.points import Points, check_points
from dhpf.viz import canvas
from dhpf.viz.spread import spread_points
from dhpf.viz.styles import draw_style

GOLDEN = Path(__file__).parent / "golden"
HEIGHT = 96  # of the images in golden pictures
SIZE = (64, 48)  # width and height of both images and of the network's input
GRID = Grid(12, 16, stride=4.0)

POINTS = np.array([[12.0, 12], [20, 36], [34, 26], [50, 12], [52, 38]])
OFF = np.array([[1.0, 1], [-3, 2], [0, 4], [9, 0], [-10, -4]])  # from the matches to what is called the truth

Confidence = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]


def half(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.full(np.shape(x), 0.5)


@dataclass
class HandMade:
    """What drawings use of a :class:`dhpf.Match`: here every point moves by one affine map."""

    source: Image.Image
    target: Image.Image
    linear: Sequence[Sequence[float]] = ((1, 0), (0, 1))
    shift: Sequence[float] = (0, 0)  # a point p moves to linear p + shift
    confident: Confidence = half
    scores_on_grid: NDArray[np.float64] = field(default_factory=lambda: np.full((12, 16), 0.5))
    layers: tuple[int, ...] | None = (2, 7)
    layer_probability: NDArray[np.float32] | None = None
    model: str = "by hand"
    size: tuple[int, int] = SIZE
    target_grid: Grid = GRID
    foreground: None = None

    def on_objects(self, points: ArrayLike) -> NDArray[np.float64]:
        return np.ones(len(np.asarray(points)))

    def transfer(self, points: ArrayLike) -> Points:
        x, y = check_points(points, self.source.size).T
        (a, b), (c, d) = self.linear
        return np.stack([a * x + b * y + self.shift[0], c * x + d * y + self.shift[1]], axis=1)

    def confidence_at(self, points: ArrayLike) -> NDArray[np.float64]:
        return self.confident(*check_points(points, self.source.size).T)

    def scores(self, point: ArrayLike) -> NDArray[np.float64]:
        return self.scores_on_grid

    def keypoints(self, count: int = 12) -> Points:
        return spread_points(as_match(self), count)


def as_match(match: HandMade) -> Match:
    return cast(Match, match)


def draw(match: HandMade, points: Any = None, style: str = "lines", **options: Any) -> Image.Image:
    """As ``match.draw`` does."""
    given = None if points is None else check_points(points, match.source.size)
    return draw_style(as_match(match), given, style, **options)


def blank(width: int, height: int, colour: str | tuple[int, int, int] = "grey") -> Image.Image:
    return Image.new("RGB", (width, height), colour)


def stripes(*shades: int) -> Image.Image:
    """Light and dark stripes with a square."""
    pixels = np.repeat(np.array(shades, np.uint8), SIZE[0] // len(shades))
    picture = np.repeat(np.tile(pixels, (SIZE[1], 1))[..., None], 3, axis=2)
    picture[16:32, 24:40] = (150, 60, 40)
    return Image.fromarray(picture)


def scene() -> HandMade:
    """Turned and shrunk, surest in the middle."""
    y, x = np.indices((12, 16))
    return HandMade(
        stripes(25, 240),
        stripes(245, 20, 130, 235),
        linear=((0.75, -0.25), (0.25, 0.75)),
        shift=(14, -2),
        confident=lambda x, y: 1 - (abs(x - 32) + abs(y - 24)) / 64,
        scores_on_grid=np.maximum(0, 8 - abs(x - 5) - abs(y - 3)) / 16,
    )


DRAWINGS: dict[str, Callable[[HandMade], Image.Image]] = {
    "lines": lambda match: draw(match, POINTS),
    "points": lambda match: draw(match, POINTS, "points"),
    "truth": lambda match: draw(match, POINTS, "truth", truth=match.transfer(POINTS) + OFF, threshold=5),
    "warp": lambda match: draw(match, style="warp"),
    "flow": lambda match: draw(match, POINTS[:1], "flow"),
    "heat": lambda match: draw(match, POINTS[:1], "heat"),
}


@contextmanager
def small_and_wordless(height: int = HEIGHT) -> Iterator[list[str]]:
    """Drawings become small, and their words go to a list: the shapes of letters depend on the libraries at
    hand, and are not what golden pictures are to tell."""
    words: list[str] = []
    with (
        patch.object(canvas, "HEIGHT", height),
        patch.object(canvas, "write", lambda draw, location, text, anchor, **look: words.append(text)),
        patch.object(canvas, "text_width", lambda text: 6.0 * len(text)),
    ):
        yield words


def make_golden() -> None:
    with small_and_wordless():
        for name, drawing in DRAWINGS.items():
            drawing(scene()).save(GOLDEN / f"{name}.png", optimize=True)


if __name__ == "__main__":
    make_golden()
