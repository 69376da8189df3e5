"""Style "flow": where every pixel moves, as colours of a wheel that is drawn beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from ..grid import resize_points
from . import canvas
from .canvas import Entry, Pen, drawing_size, enlarged, in_pixels, panel, placed, sheet, shrunk
from .colours import NEUTRAL, wheel_colours
from .lines import describe

if TYPE_CHECKING:
    from ..match import Match
    from ..points import Points

MOST = 98  # percent of the pixels lie within the wheel: single wrong matches must not set its scale
SUREST = 90  # percent of the pixels are less sure than what is drawn in full
WHEEL = 0.42  # diameter of the wheel, of the drawing's height


def draw_flow(match: Match, points: Points | None = None) -> Image.Image:
    """Draw the source, its displacements to the target as colours, and the wheel with its radius in pixels.

    Parameters
    ----------
    points
        (K, 2), x then y, in source pixels: to be marked on the source and on its displacements.
    """
    flow, confidence = _displacements(match)
    radius = max(float(np.percentile(np.linalg.norm(flow, axis=-1), MOST)), 1.0)
    tints = Image.fromarray(faded(wheel_colours(flow / radius), confidence))
    moved = tints.resize(enlarged(tints.size), Image.Resampling.NEAREST)
    source = panel(match.source)
    for location in () if points is None else placed(points, match.source.size):
        for picture in (source, moved):
            Pen(picture).dot(location, NEUTRAL)
    captions = [
        "source",
        "where it moves",
        f"radius {in_pixels(radius)}, inner {in_pixels(radius / 2)}",
    ]
    panels = [source, moved, _wheel(round(canvas.HEIGHT * WHEEL), moved.height)]
    return shrunk(sheet(panels, [[Entry(describe(match))]], captions))


def faded(picture: NDArray[np.uint8], confidence: NDArray[np.float64], paper: int = 255) -> NDArray[np.uint8]:
    """A picture (H, W, 3) as it is where its match is about the surest, and paper where it is not at all."""
    strength = np.clip(confidence / max(float(np.percentile(confidence, SUREST)), 1e-9), 0, 1)[..., None]
    return np.rint(paper + strength * (picture.astype(np.float64) - paper)).astype(np.uint8)


def _displacements(match: Match) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """At the pixels of the drawing: flow (rows, columns, 2), in pixels of the images, and how sure the model
    is of it and of an object there."""
    width, height = drawing_size(match.source.size)
    pixels = np.stack(np.meshgrid(np.arange(width), np.arange(height)), axis=-1).reshape(-1, 2)
    points = resize_points(pixels.astype(np.float64), (width, height), match.source.size)
    flow = (match.transfer(points) - points).reshape(height, width, 2)
    return flow, (match.confidence_at(points) * match.on_objects(points)).reshape(height, width)


def _wheel(diameter: int, height: int) -> Image.Image:
    """The displacements from the wheel's centre, with circles at half and all of its radius.

    It stands at the bottom of a panel, which is as high as the others, near its caption.
    """
    side = diameter + 8  # room for the edge
    centre = (side - 1) / 2
    displacement = (np.indices((side, side)).transpose(1, 2, 0)[..., ::-1] - centre) / (diameter / 2)
    picture = Image.fromarray(wheel_colours(displacement))
    picture = picture.resize(enlarged(picture.size), Image.Resampling.BICUBIC)
    outside = Image.new("L", picture.size, 255)
    ImageDraw.Draw(outside).ellipse([8, 8, picture.width - 9, picture.height - 9], fill=0)
    picture.paste("white", (0, 0), outside)
    pen = Pen(picture)
    for fraction in (0.5, 1.0):
        pen.ring((centre, centre), diameter / 2 * fraction)
    stand = Image.new("RGB", (picture.width, max(picture.height, height)), "white")
    stand.paste(picture, (0, stand.height - picture.height))
    return stand
