"""The one sample that every data set yields: a pair of photos with what is known about them.

Points count pixel centres of the original image: the centre of the top left pixel is (0, 0).

K points  P corners of a polygon  H, W pixels of the original image
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Dataset

from ..errors import InputError
from .images import fill_polygon, read_class_mask, read_rgb, read_size

Floats = NDArray[np.float64]


class ClassMap(NamedTuple):
    """A file with one class number per pixel, and the number of the class that is meant."""

    path: Path
    label: int


@dataclass(frozen=True, eq=False)
class Photo:
    """One image of a pair. Pixels are read when they are asked for, so a photo is small to send around."""

    path: Path
    size: tuple[int, int]  # width, height of the original
    points: Floats  # (K, 2), x then y, in pixels of the original image; the k-th matches the other photo's
    box: Floats | None = None  # (4,): x1, y1, x2, y2 of the object, in pixels of the original image
    polygon: Floats | None = None  # (P, 2): outline of the object, in pixels of the original image
    class_map: ClassMap | None = None
    mirrored: bool = False  # left and right exchanged, in all fields, in the image and in the mask

    def image(self) -> NDArray[np.uint8]:
        """Read the pixels: (H, W, 3), RGB."""
        image = read_rgb(self.path)
        return np.ascontiguousarray(image[:, ::-1]) if self.mirrored else image

    @property
    def appearance(self) -> str:
        """What tells this photo's pixels from those of others that are made from the same file."""
        return "mirrored" if self.mirrored else ""

    @property
    def mask(self) -> NDArray[np.bool_] | None:
        """The object's pixels (H, W), read from the class map or filled from the polygon, if there is one."""
        if self.class_map is not None:
            mask = read_class_mask(*self.class_map)
            if mask.shape != self.size[::-1]:
                found = f"{mask.shape[1]} x {mask.shape[0]}"
                wanted = f"{self.size[0]} x {self.size[1]}"
                raise InputError(
                    f"{self.class_map.path}: the mask is {found} pixels, but its image is {wanted}"
                )
            return np.ascontiguousarray(mask[:, ::-1]) if self.mirrored else mask
        return None if self.polygon is None else fill_polygon(self.polygon, self.size)

    def mirror(self) -> Photo:
        """Exchange left and right: x becomes width - 1 - x, so that a point stays on its pixel."""
        last = self.size[0] - 1
        box, polygon = self.box, self.polygon
        if box is not None:
            box = np.array([last - box[2], box[1], last - box[0], box[3]])
        if polygon is not None:
            polygon = _mirror(polygon, last)
        points = _mirror(self.points, last)
        return replace(self, points=points, box=box, polygon=polygon, mirrored=not self.mirrored)


@dataclass(frozen=True, eq=False)
class Pair:
    """Two photos of different objects of one category. Without a common point, K is 0."""

    id: str  # unique within the split, the same in every run
    index: int  # position in the split
    category: str
    source: Photo
    target: Photo
    flags: Mapping[str, int] = field(default_factory=dict)  # SPair-71k's variations, where they are known

    def mirror(self) -> Pair:
        """Both photos with left and right exchanged."""
        return replace(self, source=self.source.mirror(), target=self.target.mirror())

    def swap(self) -> Pair:
        """The same pair in the other direction."""
        return replace(self, source=self.target, target=self.source)


class Entry(NamedTuple):
    """What the pair list says about a pair, before any other file is opened."""

    id: str
    category: str
    source: Path
    target: Path
    mirrored: bool = False


class Labels(NamedTuple):
    """The annotation of one photo; the fields are those of `Photo`."""

    points: Floats
    box: Floats | None = None
    polygon: Floats | None = None
    class_map: ClassMap | None = None


class Annotation(NamedTuple):
    """The annotation of a pair."""

    source: Labels
    target: Labels
    flags: Mapping[str, int] = {}

    def checked(self, place: str | Path) -> Annotation:
        """The same, or an error that names the place it was read from."""
        counts = len(self.source.points), len(self.target.points)
        if counts[0] != counts[1]:
            raise InputError(f"{place}: {counts[0]} points in the source, but {counts[1]} in the target")
        for labels in (self.source, self.target):
            values = [labels.points, labels.box, labels.polygon]
            if not all(np.isfinite(value).all() for value in values if value is not None):
                raise InputError(f"{place}: a coordinate is not a finite number")
            if labels.polygon is not None and len(labels.polygon) < 3:
                raise InputError(f"{place}: a polygon has {len(labels.polygon)} corners, but 3 are wanted")
        return self


class PairDataset(Dataset[Pair]):
    """A list of pairs. Items are read one by one, on the CPU; use ``collate_fn=list`` in a loader.

    Attributes
    ----------
    name
        The name on the command line, such as ``pf-pascal``.
    root
        The data set's folder.
    split
        Which list of the data set this is.
    entries
        The list, in the order of the items; reading it opens no further file.
    """

    name: str
    root: Path
    split: str
    entries: tuple[Entry, ...]

    def annotation(self, index: int) -> Annotation:
        """Read what is known about a pair, without opening its images."""
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, index: int) -> Pair:
        entry, (source, target, flags) = self.entries[index], self.annotation(index)
        first = Photo(entry.source, read_size(entry.source), *source)
        second = Photo(entry.target, read_size(entry.target), *target)
        pair = Pair(entry.id, range(len(self))[index], entry.category, first, second, flags)
        return pair.mirror() if entry.mirrored else pair


def unique(ids: Iterable[str]) -> list[str]:
    """Tell repeated ids apart: a, b, a becomes a, b, a#2."""
    seen: dict[str, int] = {}
    result = []
    for name in ids:
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return result


def _mirror(points: Floats, last: int) -> Floats:
    return np.stack([last - points[:, 0], points[:, 1]], axis=1)
