"""Two photos side by side, their matches as lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

if TYPE_CHECKING:
    from ..match import Match
    from ..points import Points

HEIGHT = 480  # pixels of each photo in the drawing ...
WIDEST = 1440  # ... unless it would become wider than that
GAP = 12
LINE = 22  # of the legend, of which there are two
SUPERSAMPLING = 2  # draw larger, then shrink: smooth lines without a drawing library

# From low to high confidence: dark blue to yellow, distinguishable with any kind of colour vision.
SCALE = np.array([(0, 40, 95), (60, 77, 110), (124, 123, 120), (188, 172, 108), (254, 232, 56)], float)


def colours(values: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Values in [0, 1] -> RGB, (K, 3)."""
    position = np.clip(values, 0, 1) * (len(SCALE) - 1)
    low = np.minimum(position.astype(int), len(SCALE) - 2)
    share = (position - low)[:, None]
    mixed: NDArray[np.float64] = SCALE[low] * (1 - share) + SCALE[low + 1] * share
    return np.rint(mixed).astype(np.uint8)


def draw_matches(match: Match, points: Points) -> Image.Image:
    """Draw ``points`` (K, 2), in source pixels, their matches, and lines coloured by confidence."""
    s = SUPERSAMPLING
    left, right = _fitted(match.source), _fitted(match.target)
    width, height = left.width + GAP + right.width, max(left.height, right.height)
    canvas = Image.new("RGB", (width, height + 2 * LINE + GAP), "white")
    canvas.paste(left, (0, 0))
    canvas.paste(right, (left.width + GAP, 0))
    canvas = canvas.resize((canvas.width * s, canvas.height * s), Image.Resampling.BICUBIC)
    pen = ImageDraw.Draw(canvas)

    confidence = match.confidence_at(points)
    highest = float(confidence.max(initial=0.0))
    strength = confidence / max(highest, 1e-12)
    start = points * (left.width / match.source.width, left.height / match.source.height)
    end = match.transfer(points) * (right.width / match.target.width, right.height / match.target.height)
    end = np.clip(end, 0, [right.width - 1, right.height - 1])
    end[:, 0] += left.width + GAP
    for index in np.argsort(strength):  # the surest on top
        colour = tuple(int(c) for c in colours(strength[index : index + 1])[0])
        _draw_match(pen, tuple(start[index] * s), tuple(end[index] * s), colour, s)
    layers = ", ".join(map(str, match.layers))
    facts = [f"confidence 0 to {highest:.2g}", f"{len(points)} matches   {match.model}   layers {layers}"]
    _legend(canvas, pen, facts, height * s, s)
    return canvas.resize((canvas.width // s, canvas.height // s), Image.Resampling.LANCZOS)


def _fitted(photo: Image.Image) -> Image.Image:
    """The photo in the size of the drawing."""
    scale = min(HEIGHT / photo.height, WIDEST / photo.width)
    size = max(1, round(photo.width * scale)), max(1, round(photo.height * scale))
    return photo.resize(size, Image.Resampling.LANCZOS)


def _draw_match(
    pen: ImageDraw.ImageDraw, a: tuple[float, ...], b: tuple[float, ...], colour: tuple[int, ...], s: int
) -> None:
    """A line with a dot at either end; edged in white and then black, to stand out from any photo."""
    for width, edge in ((5.5, "black"), (4.5, "white"), (2.5, colour)):
        pen.line([a, b], fill=edge, width=round(width * s))
    for x, y in (a, b):
        for radius, edge in ((6.5, "black"), (6, "white"), (4, colour)):
            r = radius * s
            pen.ellipse([x - r, y - r, x + r, y + r], fill=edge)


def _legend(canvas: Image.Image, pen: ImageDraw.ImageDraw, facts: list[str], top: int, s: int) -> None:
    """A colour bar and the first fact, then the other, as large as the drawing is wide."""
    bar = colours(np.linspace(0, 1, 100 * s))
    height = 12 * s
    strip = Image.fromarray(np.broadcast_to(bar, (height, *bar.shape)).copy())
    canvas.paste(strip, (GAP * s, top + GAP * s))
    for line, (x, fact) in enumerate(zip((124, GAP), facts, strict=True)):
        font, room = ImageFont.load_default(13 * s), canvas.width - (x + GAP) * s
        if (wanted := pen.textlength(fact, font)) > room:
            font = ImageFont.load_default(max(4 * s, 13 * s * room / wanted))
        pen.text((x * s, top + GAP * s + line * LINE * s - 2 * s), fact, fill="black", font=font)
