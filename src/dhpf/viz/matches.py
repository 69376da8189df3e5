"""Two photos side by side, their matches as lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

if TYPE_CHECKING:
    from ..match import Match, Points

HEIGHT = 480  # pixels of each photo in the drawing
GAP = 12
FOOT = 44  # for the legend
SUPERSAMPLING = 2  # draw larger, then shrink: smooth lines without a drawing library

# From low to high confidence: dark blue to yellow, distinguishable with any kind of colour vision.
SCALE = np.array([(0, 40, 95), (60, 77, 110), (124, 123, 120), (188, 172, 108), (254, 232, 56)], float)


def colours(values: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Values in [0, 1] -> RGB, (K, 3)."""
    position = np.clip(values, 0, 1) * (len(SCALE) - 1)
    low = np.minimum(position.astype(int), len(SCALE) - 2)
    share = (position - low)[:, None]
    return np.rint(SCALE[low] * (1 - share) + SCALE[low + 1] * share).astype(np.uint8)


def draw_matches(match: Match, points: Points) -> Image.Image:
    """Draw ``points`` (K, 2), in source pixels, their matches, and lines coloured by confidence."""
    s = SUPERSAMPLING
    photos = [p.resize((max(1, round(p.width * HEIGHT / p.height)), HEIGHT), Image.Resampling.LANCZOS)
              for p in (match.source, match.target)]
    left, right = photos
    canvas = Image.new("RGB", (left.width + GAP + right.width, HEIGHT + FOOT), "white")
    canvas.paste(left, (0, 0))
    canvas.paste(right, (left.width + GAP, 0))
    canvas = canvas.resize((canvas.width * s, canvas.height * s), Image.Resampling.BICUBIC)
    pen = ImageDraw.Draw(canvas)

    confidence = match.confidence_at(points)
    strength = confidence / max(float(confidence.max(initial=0.0)), 1e-12)
    start = points * (HEIGHT / match.source.height) * s
    end = (match.transfer(points) * (HEIGHT / match.target.height) + [left.width + GAP, 0]) * s
    end = np.clip(end, [(left.width + GAP) * s, 0], [canvas.width - 1, HEIGHT * s - 1])
    for index in np.argsort(strength):  # the surest on top
        colour = tuple(int(c) for c in colours(strength[index : index + 1])[0])
        a, b = tuple(start[index]), tuple(end[index])
        pen.line([a, b], fill="white", width=4 * s)  # a halo keeps lines readable on any photo
        pen.line([a, b], fill=colour, width=2 * s)
        for x, y in (a, b):
            pen.ellipse([x - 6 * s, y - 6 * s, x + 6 * s, y + 6 * s], fill="white")
            pen.ellipse([x - 4 * s, y - 4 * s, x + 4 * s, y + 4 * s], fill=colour)
    _legend(canvas, pen, match, len(points), s)
    return canvas.resize((canvas.width // s, canvas.height // s), Image.Resampling.LANCZOS)


def _legend(canvas: Image.Image, pen: ImageDraw.ImageDraw, match: Match, count: int, s: int) -> None:
    """Colour bar and one line of facts under the photos."""
    font = ImageFont.load_default(13 * s)
    top = (HEIGHT + 14) * s
    bar = colours(np.linspace(0, 1, 120 * s))
    canvas.paste(Image.fromarray(np.broadcast_to(bar, (12 * s, *bar.shape)).copy()), (14 * s, top + 2 * s))
    pen.text((142 * s, top), "confidence: lowest to highest shown", fill="black", font=font)
    layers = ", ".join(map(str, match.layers))
    facts = f"{count} matches   {match.model}   layers {layers}"
    width = pen.textlength(facts, font=font)
    if width < canvas.width - 380 * s:
        pen.text((canvas.width - width - 14 * s, top), facts, fill="black", font=font)
