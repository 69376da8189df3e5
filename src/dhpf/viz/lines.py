"""Style "lines": two images side by side, their matches as lines with numbers or names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from .canvas import GAP, Entry, Pen, confidence_scale, drawing_size, panel, placed, sheet, shrunk
from .colours import Colour, colours

if TYPE_CHECKING:
    from ..match import Match
    from ..points import Points


def draw_lines(
    match: Match, points: Points, names: Sequence[str] | None = None, matches: Points | None = None
) -> Image.Image:
    """Draw ``points`` (K, 2), in source pixels, their matches, and lines coloured by confidence.

    ``matches`` (K, 3) are x and y in target pixels and confidence, where a person has corrected them.
    """
    if matches is None:
        matches = np.column_stack([match.transfer(points), match.confidence_at(points)])
    confidence = matches[:, 2]
    facts = Entry(f"{len(points)} matches   {describe(match)}")
    canvas = sheet([panel(match.source), panel(match.target)], [confidence_scale("1"), [facts]])

    start = placed(points, match.source.size)
    end = placed(matches[:, :2], match.target.size)
    size_a, size_b = drawing_size(match.source.size), drawing_size(match.target.size)
    left_b = size_a[0] + GAP
    end = np.clip(end, 0, np.array(size_b) - 1) + np.array([left_b, 0])
    order = np.argsort(confidence, kind="stable")  # the surest on top
    tints: list[Colour] = [(red, green, blue) for red, green, blue in colours(confidence[order]).tolist()]
    pen = Pen(canvas)
    for a, b, tint in zip(start[order], end[order], tints, strict=True):
        pen.line(a, b, tint)
    for a, b, tint in zip(start[order], end[order], tints, strict=True):
        pen.dot(a, tint)
        pen.dot(b, tint)
    labels = labels_of(points, names)
    pen.labels(start, labels, size_a)
    pen.labels(end, labels, size_b, left_b)
    return shrunk(canvas)


def labels_of(points: Points, names: Sequence[str] | None) -> list[str]:
    """The points' names, or numbers from 1."""
    return [str(number) for number in range(1, len(points) + 1)] if names is None else list(names)


def describe(match: Match) -> str:
    """The model and the layers that it chose, if it chooses any, for the legend."""
    if match.layers is None:
        return match.model
    return f"{match.model}   layers {', '.join(map(str, match.layers))}"
