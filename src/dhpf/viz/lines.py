"""Matches as dots with numbers or names: style "lines", both images side by side, joined by lines; and style
"points", the target alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
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
    facts = Entry(f"{len(points)} matches   {describe(match)}")
    canvas = sheet([panel(match.source), panel(match.target)], [confidence_scale("1"), [facts]])
    start, size_a = placed(points, match.source.size), drawing_size(match.source.size)
    end, size_b = _inside(matches[:, :2], match.target.size)
    left_b = size_a[0] + GAP
    end = end + np.array([left_b, 0])
    pen, order, tints = Pen(canvas), *_surest_last(matches[:, 2])
    for n in order:
        pen.line(start[n], end[n], tints[n])
    for n in order:
        pen.dot(start[n], tints[n])
        pen.dot(end[n], tints[n])
    labels = labels_of(points, names)
    pen.labels(start, labels, size_a)
    pen.labels(end, labels, size_b, left_b)
    return shrunk(canvas)


def draw_points(match: Match, points: Points, names: Sequence[str] | None = None) -> Image.Image:
    """Draw the matches of ``points`` (K, 2), in source pixels, coloured by confidence."""
    facts = Entry(f"{len(points)} points   {describe(match)}")
    canvas = sheet([panel(match.target)], [confidence_scale("1"), [facts]])
    places, size = _inside(match.transfer(points), match.target.size)
    pen, order, tints = Pen(canvas), *_surest_last(match.confidence_at(points))
    for n in order:
        pen.dot(places[n], tints[n])
    pen.labels(places, labels_of(points, names), size)
    return shrunk(canvas)


def _inside(points: Points, size: tuple[int, int]) -> tuple[Points, tuple[int, int]]:
    """Where points of an image are drawn on its panel, at the edge if beyond; and the panel's size."""
    shown = drawing_size(size)
    return np.clip(placed(points, size), 0, np.array(shown) - 1), shown


def _surest_last(confidence: NDArray[np.float64]) -> tuple[list[int], list[Colour]]:
    """The order in which matches are drawn, and the colour of each."""
    tints = [(red, green, blue) for red, green, blue in colours(confidence).tolist()]
    return np.argsort(confidence, kind="stable").tolist(), tints


def labels_of(points: Points, names: Sequence[str] | None) -> list[str]:
    """The points' names, or numbers from 1."""
    return [str(number) for number in range(1, len(points) + 1)] if names is None else list(names)


def describe(match: Match) -> str:
    """The model and the layers that it chose, if it chooses any, for the legend."""
    if match.layers is None:
        return match.model
    return f"{match.model}   layers {', '.join(map(str, match.layers))}"
