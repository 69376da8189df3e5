"""Self-supervision: pairs made from single photos by random warps, with true correspondences everywhere.

The target of a pair is the photo itself, warped by a random affine map and a thin-plate spline on top.

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
from .images import read_rgb, read_size
from .pairs import Annotation, Entry, Floats, Labels, Pair, PairDataset, Photo

ENDINGS = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff")
POINTS = 16  # of a pair
TURN, SCALE, SHIFT, BEND = 0.35, 0.25, 0.1, 0.08  # largest: radians, logarithm, and shares of a side
KNOTS = 4  # along each side, of the thin-plate spline
COARSE = 32  # the spline is evaluated on that many points a side, and interpolated between


@dataclass(frozen=True, eq=False)
class WarpedPhoto(Photo):
    """A photo seen through a warp. Where pixels come from outside, the edge is repeated."""

    seed: int = 0

    def image(self) -> NDArray[np.uint8]:
        """Read and warp the pixels: (H, W, 3), RGB."""
        image = read_rgb(self.path)
        width, height = self.size
        x, y = np.meshgrid(np.arange(width) / width, np.arange(height) / height)
        x, y = self.warp.origin(np.stack([x, y], axis=-1).reshape(-1, 2)).T * np.array([[width], [height]])
        planes = [map_coordinates(image[..., c], [y, x], order=1, mode="nearest") for c in range(3)]
        warped = np.stack(planes, axis=-1).reshape(height, width, 3)
        return np.ascontiguousarray(warped[:, ::-1]) if self.mirrored else warped

    @property
    def appearance(self) -> str:
        """The warp belongs to it."""
        return f"{super().appearance} warped {self.seed}"

    @cached_property
    def warp(self) -> Warp:
        """From places in the warped photo to places in the photo."""
        return Warp(np.random.default_rng(self.seed))


class Warp:
    """A random smooth map of the unit square: an affine map, then a thin-plate spline."""

    def __init__(self, random: np.random.Generator) -> None:
        angle = random.uniform(-TURN, TURN)
        stretch = np.exp(random.uniform(-SCALE, SCALE, 2))
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        self.matrix = turn @ np.diag(stretch)
        self.shift = random.uniform(-SHIFT, SHIFT, 2)
        knots = np.stack(np.meshgrid(*[np.linspace(0, 1, KNOTS)] * 2), axis=-1).reshape(-1, 2)
        bend = random.uniform(-BEND, BEND, knots.shape)
        grid = np.stack(np.meshgrid(*[np.linspace(0, 1, COARSE)] * 2, indexing="ij"), axis=-1)
        spline = RBFInterpolator(knots, bend, kernel="thin_plate_spline")
        self.bend = spline(grid.reshape(-1, 2)).reshape(COARSE, COARSE, 2)  # indexed by x, then y

    def origin(self, places: Floats) -> Floats:
        """Where in the photo the places (K, 2) of the warped one come from; both as shares of the sides."""
        index = np.clip(places, 0, 1).T * (COARSE - 1)
        bent = np.stack(
            [map_coordinates(self.bend[..., k], index, order=1, mode="nearest") for k in (0, 1)], 1
        )
        moved: Floats = (places - 0.5) @ self.matrix.T + 0.5 + self.shift + bent
        return moved


class SyntheticPairs(PairDataset):
    """All photos of a folder and its subfolders, each with a warped copy of itself.

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
        """True correspondences: places of the warped photo whose origin lies in the photo."""
        size = np.array(read_size(self.entries[index].source))
        index = range(len(self))[index]
        random = np.random.default_rng((self.seed, index))
        places = random.uniform(0.05, 0.95, (40 * POINTS, 2))
        origins = self._warp(index).origin(places)
        inside = np.flatnonzero(((origins > 0.02) & (origins < 0.98)).all(axis=1))[:POINTS]
        return Annotation(Labels(origins[inside] * size), Labels(places[inside] * size))

    def __getitem__(self, index: int) -> Pair:
        pair = super().__getitem__(index)
        target = pair.target
        warped = WarpedPhoto(target.path, target.size, target.points, seed=self._seed(index))
        return Pair(pair.id, pair.index, pair.category, pair.source, warped)

    def _seed(self, index: int) -> int:
        return self.seed * 1_000_003 + range(len(self))[index]

    def _warp(self, index: int) -> Warp:
        return Warp(np.random.default_rng(self._seed(index)))
