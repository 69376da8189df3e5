"""Drawn scenes with known correspondences, for the mini data sets.

Each category is one object: a blob with a texture and coloured spots. Each scene shows it under another
affine map on another background, so that matching points truly match.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter, map_coordinates

from .pairs import Floats

SPOTS = 10  # keypoints of an object
CORNERS = 40  # of the outline
TEXELS = 64  # side of an object's texture


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


class DrawnObject:
    """An object in its own coordinates: centred at 0, within radius 1."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._texture = _noise(rng, (TEXELS, TEXELS), smooth=3.0, contrast=70.0)
        self._lobes = rng.uniform(0.04, 0.09, size=2)
        self._phases = rng.uniform(0, 2 * np.pi, size=2)
        angle = np.arange(SPOTS) * 2.4  # the golden angle spreads them evenly
        radius = 0.55 * np.sqrt((np.arange(SPOTS) + 0.5) / SPOTS)
        self.spots = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
        self._colours = rng.uniform(0, 255, size=(SPOTS, 3))

    def radius(self, angle: Floats) -> Floats:
        """Distance of the outline from the centre, at most 1."""
        radius: Floats = np.full(angle.shape, 0.76)
        for count, height, phase in zip((2, 3), self._lobes, self._phases, strict=True):
            radius += height * np.sin(count * angle + phase)
        return radius

    def outline(self) -> Floats:
        """(CORNERS, 2)"""
        angle = np.linspace(0, 2 * np.pi, CORNERS, endpoint=False)
        radius = self.radius(angle)
        return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)

    def colours(self, at: Floats) -> Floats:
        """Colour of the object at (..., 2) object coordinates."""
        texel = (at + 1) / 2 * (TEXELS - 1)
        place = [texel[..., 1], texel[..., 0]]
        channels = [map_coordinates(self._texture[..., c], place, order=1, mode="nearest") for c in range(3)]
        colour = np.stack(channels, axis=-1)
        for spot, spot_colour in zip(self.spots, self._colours, strict=True):
            weight = np.exp(-((at - spot) ** 2).sum(axis=-1) / (2 * 0.08**2))[..., None]
            colour += weight * (spot_colour - colour)
        return colour


def draw_scene(drawn: DrawnObject, size: tuple[int, int], rng: np.random.Generator) -> Scene:
    """Show an object under a random affine map.

    Parameters
    ----------
    size
        Width and height of the image.
    """
    width, height = size
    scale = min(size) * rng.uniform(0.36, 0.46)
    angle, stretch = rng.uniform(-0.35, 0.35), rng.uniform(0.85, 1.0)
    rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    linear = scale * rotation @ np.diag([1.0, stretch])
    room = np.array(size) / 2 - scale
    centre = (np.array(size) - 1) / 2 + rng.uniform(-1, 1, size=2) * room

    x, y = np.meshgrid(np.arange(width), np.arange(height))
    at = (np.stack([x, y], axis=-1) - centre) @ np.linalg.inv(linear).T  # (H, W, 2) object coordinates
    mask = np.hypot(at[..., 0], at[..., 1]) < drawn.radius(np.arctan2(at[..., 1], at[..., 0]))
    background = _noise(rng, (height, width), smooth=6.0, contrast=25.0)
    image = np.where(mask[..., None], drawn.colours(at), background).clip(0, 255).round().astype(np.uint8)
    return Scene(image, mask, drawn.spots @ linear.T + centre, drawn.outline() @ linear.T + centre)


def _noise(rng: np.random.Generator, shape: tuple[int, int], smooth: float, contrast: float) -> Floats:
    """Smooth colours around mid grey, (*shape, 3)."""
    noise = gaussian_filter(rng.normal(size=(*shape, 3)), sigma=(smooth, smooth, 0))
    colours: Floats = 128 + contrast * noise / noise.std()
    return colours
