"""Style "lines": two photos side by side, their matches as lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from .canvas import GAP, Entry, Pen, confidence_bar, drawing_size, panel, placed, sheet, shrunk
from .colours import Colour, colours

if TYPE_CHECKING:
    from ..match import Match
    from ..points import Points


def draw_matches(match: Match, points: Points) -> Image.Image:
    """Draw ``points`` (K, 2), in source pixels, their matches, and lines coloured by confidence."""
    confidence = match.confidence_at(points)
    highest = float(confidence.max(initial=0.0))
    facts = Entry(f"{len(points)} matches   {describe(match)}")
    legend = [[Entry(f"confidence 0 to {highest:.2g}", confidence_bar())], [facts]]
    canvas = sheet([panel(match.source), panel(match.target)], legend)

    strength = confidence / max(highest, 1e-12)
    start = placed(points, match.source.size)
    end = placed(match.transfer(points), match.target.size)
    end = np.clip(end, 0, np.array(drawing_size(match.target.size)) - 1)
    end[:, 0] += drawing_size(match.source.size)[0] + GAP
    order = np.argsort(strength)  # the surest on top
    tints: list[Colour] = [(red, green, blue) for red, green, blue in colours(strength[order]).tolist()]
    pen = Pen(canvas)
    for a, b, tint in zip(start[order], end[order], tints, strict=True):
        pen.line(a, b, tint)
    for a, b, tint in zip(start[order], end[order], tints, strict=True):
        pen.dot(a, tint)
        pen.dot(b, tint)
    return shrunk(canvas)


def describe(match: Match) -> str:
    """The model and its layers, for the legend."""
    return f"{match.model}   layers {', '.join(map(str, match.layers))}"
