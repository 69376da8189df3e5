"""Self-supervision: pairs made from single images by random warps, with true correspondences everywhere.

The target of a pair is the image itself, warped by a random affine map and a thin-plate spline on top. Warps
live on an image of one pixel, which covers -1/2 to 1/2, so that `resize_points` takes points there and back.

K points  H, W pixels
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import RBFInterpolator
from scipy.ndimage import map_coordinates

from ..errors import InputError
from ..grid import resize_points
from ..images import read_image
from .pairs import Annotation, Entry, Floats, Labels, Pair, PairDataset, Photo

ENDINGS = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff")
POINTS = 16  # of a pair
ROTATION, SCALE, SHIFT, BEND = 0.35, 0.25, 0.1, 0.08  # largest: radians, logarithm, fractions of a side
KNOTS = 4  # along each side, of the thin-plate spline
COARSE = 32  # the spline is evaluated on that many points a side, and interpolated between
UNIT = (1, 1)  # size of the image that warps live on


@dataclass(frozen=True, eq=False)
class WarpedPhoto(Photo):
    """An image seen through a warp. Where pixels come from outside, the edge is repeated."""

    seed: int = 0

    def image(self) -> NDArray[np.uint8]:
        """Read and warp the pixels: (H, W, 3), RGB."""
        image = np.asarray(read_image(self.path))
        width, height = self.size
        pixels = np.stack(np.meshgrid(np.arange(float(width)), np.arange(float(height))), axis=-1)
        x, y = self.warp.origin(pixels.reshape(-1, 2), self.size).T
        planes = [map_coordinates(image[..., c], [y, x], order=1, mode="nearest") for c in range(3)]
        warped = np.stack(planes, axis=-1).reshape(height, width, 3)
        return np.ascontiguousarray(warped[:, ::-1]) if self.mirrored else warped

    @property
    def appearance(self) -> str:
        """The warp belongs to it."""
        return f"{super().appearance} warped {self.seed}"

    @cached_property
    def warp(self) -> Warp:
        """From locations in the warped image to locations in the image."""
        return Warp(self.seed)


class Warp:
    """A random smooth map: an affine map, plus a thin-plate spline."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        angle = random.uniform(-ROTATION, ROTATION)
        stretch = np.exp(random.uniform(-SCALE, SCALE, 2))
        rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        self.matrix = rotation @ np.diag(stretch)
        self.shift = random.uniform(-SHIFT, SHIFT, 2)
        knots = np.stack(np.meshgrid(*[np.linspace(-0.5, 0.5, KNOTS)] * 2), axis=-1).reshape(-1, 2)
        bend = random.uniform(-BEND, BEND, knots.shape)
        grid = np.stack(np.meshgrid(*[np.linspace(-0.5, 0.5, COARSE)] * 2, indexing="ij"), axis=-1)
        spline = RBFInterpolator(knots, bend, kernel="thin_plate_spline")
        self.bend = spline(grid.reshape(-1, 2)).reshape(COARSE, COARSE, 2)  # indexed by x, then y

    def origin(self, points: Floats, size: tuple[int, int]) -> Floats:
        """Where in an image of that size the points (K, 2) of the warped one come from."""
        unit = resize_points(points, size, UNIT)
        index = (np.clip(unit, -0.5, 0.5).T + 0.5) * (COARSE - 1)
        bent = [map_coordinates(self.bend[..., k], index, order=1, mode="nearest") for k in (0, 1)]
        return resize_points(unit @ self.matrix.T + self.shift + np.stack(bent, axis=1), UNIT, size)


class SyntheticPairs(PairDataset):
    """All images of a folder and its subfolders, each with a warped copy of itself.

    Parameters
    ----------
    root
        The folder.
    seed
        Of the warps: another seed gives other pairs.
    """

    name = "synthetic"
    split = "all"

    def __init__(self, root: str | Path, seed: int = 0) -> None:
        self.root, self.seed = Path(root), seed
        if not self.root.is_dir():
            raise InputError(f"no such folder of photos: {self.root}")
        files = sorted(
            path for path in self.root.rglob("*") if path.is_file() and path.suffix.lower() in ENDINGS
        )
        if not files:
            raise InputError(f"{self.root} holds no photo ({', '.join(ENDINGS)})")
        self.entries = tuple(
            Entry(path.relative_to(self.root).as_posix(), path.parent.name, path, path) for path in files
        )

    def annotation(self, index: int) -> Annotation:
        """True correspondences: points of the warped image whose origin lies in the image."""
        size = self.size(self.entries[index].source)
        random = np.random.default_rng((self.seed, range(len(self))[index]))
        points = resize_points(random.uniform(-0.45, 0.45, (40 * POINTS, 2)), UNIT, size)
        origins = Warp(self._seed(index)).origin(points, size)
        inside = (np.abs(resize_points(origins, size, UNIT)) < 0.48).all(axis=1)
        kept = np.flatnonzero(inside)[:POINTS]
        return Annotation(Labels(origins[kept]), Labels(points[kept]))

    def __getitem__(self, index: int) -> Pair:
        pair = super().__getitem__(index)
        target = pair.target
        warped = WarpedPhoto(target.path, target.size, target.points, seed=self._seed(index))
        return Pair(pair.id, pair.index, pair.category, pair.source, warped)

    def _seed(self, index: int) -> int:
        return self.seed * 1_000_003 + range(len(self))[index]
