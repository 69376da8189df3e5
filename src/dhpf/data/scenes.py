"""Scenes with known correspondences, for the mini data sets.

Each category is one of the sample photos, cut out along an ellipse. Each scene shows it under another affine
map on a plain background, so that matching points truly match.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ..images import read_image
from ..samples import sample
from .masks import fill_polygon
from .pairs import Floats

SPOTS = 10  # keypoints of an object
CORNERS = 40  # of the outline
SIDE = 32  # pixels of a photo: smooth, so that a keypoint looks the same in every scene


@dataclass(frozen=True)
class Scene:
    """One image and the truth about it; coordinates in its pixels."""

    image: NDArray[np.uint8]  # (H, W, 3)
    mask: NDArray[np.bool_]  # (H, W)
    points: Floats  # (SPOTS, 2), x then y
    outline: Floats  # (CORNERS, 2)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        return self.mask.shape[1], self.mask.shape[0]

    @property
    def box(self) -> Floats:
        """The outline's extent: x1, y1, x2, y2."""
        return np.concatenate([self.outline.min(axis=0), self.outline.max(axis=0)])


def photos() -> list[Image.Image]:
    """Sample photos, as small squares; always the same, so that a seed gives the same data."""
    names = ("cheetah", "cheetah_cub", "chelsea", "lion")
    return [read_image(sample(name)).resize((SIDE, SIDE)) for name in names]


def show(photo: Image.Image, size: tuple[int, int], rng: np.random.Generator) -> Scene:
    """A photo under a random affine map, in an image of that width and height."""
    scale = min(size) * rng.uniform(0.36, 0.46)
    angle, stretch = rng.uniform(-0.35, 0.35), rng.uniform(0.85, 1.0)
    rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    linear = scale * rotation @ np.diag([1.0, stretch])
    room = np.array(size) / 2 - scale
    centre = (np.array(size) - 1) / 2 + rng.uniform(-1, 1, size=2) * room

    # Object coordinates: 0 at the photo's centre, 1 at its sides. Pillow counts from the corners of pixels.
    back = np.linalg.inv(linear) * SIDE / 2
    start = SIDE / 2 - back @ (centre + 0.5)
    shown = photo.transform(
        size,
        Image.Transform.AFFINE,
        np.column_stack([back, start]).ravel().tolist(),
        Image.Resampling.BILINEAR,
    )
    outline = _ring(0.8, np.linspace(0, 2 * np.pi, CORNERS, endpoint=False)) @ linear.T + centre
    mask = fill_polygon(outline, size)
    image = np.where(mask[..., None], np.asarray(shown), np.uint8(rng.integers(100, 156)))
    turns = np.arange(SPOTS) * 2.4  # the golden angle spreads them evenly
    points = _ring(0.6 * np.sqrt((np.arange(SPOTS) + 0.5) / SPOTS), turns) @ linear.T + centre
    return Scene(image, mask, points, outline)


def _ring(radius: Floats | float, angle: NDArray[np.floating]) -> Floats:
    """(..., 2), x then y."""
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)
