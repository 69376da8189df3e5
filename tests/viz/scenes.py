"""One small match made by hand, drawn in every style: what the golden pictures show.

After a change that is meant, ``python -m tests.viz.scenes`` makes them anew. Look at them before they are
kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from dhpf.model.evidence import Evidence
from numpy.typing import NDArray
from PIL import Image

from dhpf import Match
from dhpf.model.correlation import correlate
from dhpf.model.hough import hough_space
from dhpf.model.matching import match_cells
from dhpf.viz import canvas

GOLDEN = Path(__file__).parent / "golden"
HEIGHT = 96  # of the photos in golden pictures
SIZE = (64, 48)  # width and height of both photos and of the network's input
GRID = (12, 16)  # rows and columns of cells

POINTS = np.array([[12.0, 12], [20, 36], [34, 26], [50, 12], [52, 38]])
OFF = np.array([[1.0, 1], [-3, 2], [0, 4], [9, 0], [-10, -4]])  # from the matches to what is called the truth


def photo(*shades: int) -> Image.Image:
    """Light and dark stripes with a square."""
    pixels = np.repeat(np.array(shades, np.uint8), SIZE[0] // len(shades))
    picture = np.repeat(np.tile(pixels, (SIZE[1], 1))[..., None], 3, axis=2)
    picture[16:32, 24:40] = (150, 60, 40)
    return Image.fromarray(picture)


def turned() -> NDArray[np.float64]:
    """Where each source cell goes, (2, rows, columns), row then column: turned by 30 degrees."""
    y, x = np.indices(GRID) - np.array([5.5, 7.5])[:, None, None]
    sine, cosine = 0.5, np.sqrt(0.75)
    return np.stack([cosine * y + sine * x + 5.5, cosine * x - sine * y + 7.5])


def nearness(places: NDArray[np.float64]) -> torch.Tensor:
    """A feature block (20, rows, columns): how near each place is to each of 20 others."""
    centres = np.stack(np.meshgrid([1, 4, 7, 10], [1, 4, 8, 12, 15], indexing="ij")).reshape(2, -1, 1, 1)
    return torch.from_numpy(np.exp(-np.square(places[:, None] - centres).sum(0) / 12)).float()


def evidence() -> Evidence:
    """Features of the source are those of the target, turned."""
    a, b = nearness(turned()), nearness(np.indices(GRID).astype(float))
    correlation = correlate([a], [b], GRID, GRID)
    space = hough_space(SIZE[::-1], SIZE[::-1], torch.float32, torch.device("cpu"))
    found = match_cells(correlation, space)
    return Evidence(correlation, found.votes, found.column_maxima)


def scene() -> Match:
    """A match whose cells are turned, surest in the middle."""
    row, column = np.rint(turned()).clip(0, np.array([11, 15])[:, None, None]).astype(np.int64)
    y, x = np.indices(GRID)
    confidence = np.exp(-((x - 7.5) ** 2 + (y - 5.5) ** 2) / 30).astype(np.float32)
    return Match(
        photo(25, 240),
        photo(245, 20, 130, 235),
        (row * GRID[1] + column).flatten(),
        confidence.flatten(),
        (GRID, GRID),
        SIZE,
        "by hand",
        (2, 7),
        evidence=evidence(),
    )


DRAWINGS: dict[str, Callable[[Match], Image.Image]] = {
    "lines": lambda match: match.draw(POINTS),
    "truth": lambda match: match.draw(POINTS, "truth", truth=match.transfer(POINTS) + OFF, threshold=5),
    "warp": lambda match: match.draw(style="warp"),
    "flow": lambda match: match.draw(POINTS[:1], "flow"),
    "heat": lambda match: match.draw(POINTS[:1], "heat"),
}


@contextmanager
def small_and_wordless() -> Iterator[list[str]]:
    """Drawings become small, and their words go to a list: the shapes of letters depend on the libraries at
    hand, and are not what golden pictures are to tell."""
    words: list[str] = []
    with (
        patch.object(canvas, "HEIGHT", HEIGHT),
        patch.object(canvas, "write", lambda draw, place, text, anchor, **look: words.append(text)),
        patch.object(canvas, "text_width", lambda text: 6.0 * len(text)),
    ):
        yield words


def make_golden() -> None:
    with small_and_wordless():
        for name, draw in DRAWINGS.items():
            few = draw(scene()).quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
            few.save(GOLDEN / f"{name}.png", optimize=True)


if __name__ == "__main__":
    make_golden()
