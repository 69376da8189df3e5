"""Style "points": the target alone, with the points that arrived there as labelled dots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from .canvas import Entry, Pen, confidence_scale, drawing_size, panel, placed, sheet, shrunk
from .colours import Colour, colours
from .lines import describe, labels_of

if TYPE_CHECKING:
    from ..match import Match
    from ..points import Points


def draw_points(match: Match, points: Points, names: Sequence[str] | None = None) -> Image.Image:
    """Draw the matches of ``points`` (K, 2), in source pixels, coloured by confidence."""
    confidence = match.confidence_at(points)
    facts = Entry(f"{len(points)} points   {describe(match)}")
    canvas = sheet([panel(match.target)], [confidence_scale("1"), [facts]])
    size = drawing_size(match.target.size)
    places = np.clip(placed(match.transfer(points), match.target.size), 0, np.array(size) - 1)
    pen = Pen(canvas)
    for n in np.argsort(confidence, kind="stable"):  # the surest on top
        red, green, blue = colours(confidence[n : n + 1])[0].tolist()
        tint: Colour = (red, green, blue)
        pen.dot(places[n], tint)
    pen.labels(places, labels_of(points, names), size)
    return shrunk(canvas)
