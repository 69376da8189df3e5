"""Style "truth": where points went and where they belong, each within or beyond a circle of allowed error."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from .canvas import Entry, Pen, drawing_size, in_pixels, panel, placed, sheet, shrunk, symbol
from .colours import NEUTRAL, RIGHT, WRONG
from .lines import describe

if TYPE_CHECKING:
    from ..match import Match
    from ..points import Points

ALPHA = 0.1  # of the target's longer side: the usual threshold of PCK


def draw_truth(match: Match, points: Points, truth: Points, threshold: float | None = None) -> Image.Image:
    """Draw source points, and on the target their matches, true locations and circles of allowed error.

    A match within its circle is a light blue dot, one beyond it a dark orange diamond; a line joins it to the
    true location, the centre of the circle.

    Parameters
    ----------
    points, truth
        (K, 2), x then y: in pixels of the source, and the locations they belong to in pixels of the target.
    threshold
        The allowed error in pixels of the target; by default a tenth of its longer side.
    """
    allowed = ALPHA * max(match.target.size) if threshold is None else threshold
    moved = match.transfer(points)
    error = np.linalg.norm(moved - truth, axis=1)
    right = error <= allowed

    source, target = panel(match.source), panel(match.target)
    numbers = [str(number) for number in range(1, len(points) + 1)]
    pen, starts = Pen(source), placed(points, match.source.size)
    for location in starts:
        pen.dot(location, NEUTRAL)
    pen.labels(starts, numbers, drawing_size(match.source.size))
    pen, size = Pen(target), drawing_size(match.target.size)
    ends, centres = placed(moved, match.target.size), placed(truth, match.target.size)
    for centre in centres:
        pen.ring(centre, allowed * np.array(size) / match.target.size)
    for centre, end, good in zip(centres, ends, right, strict=True):
        pen.line(centre, end, RIGHT if good else WRONG)
        pen.ring(centre, 2.5)
    for end, good in zip(ends, right, strict=True):
        pen.dot(end, RIGHT) if good else pen.diamond(end, WRONG)
    pen.labels(ends, numbers, size)
    true_location = symbol(partial(Pen.ring, radius=2.5))
    first = [
        Entry(f"true location, {in_pixels(allowed)} around it", true_location),
        Entry(f"{right.sum()} within", symbol(partial(Pen.dot, colour=RIGHT))),
        Entry(f"{(~right).sum()} beyond", symbol(partial(Pen.diamond, colour=WRONG))),
    ]
    mean = f"mean error {in_pixels(error.mean())}   " if len(points) else ""
    return shrunk(sheet([source, target], [first, [Entry(mean + describe(match))]]))
