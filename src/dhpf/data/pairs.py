"""The one sample that every data set yields: a pair of images with what is known about them.

Points are in pixels of the original image, after its EXIF orientation is undone (see `dhpf.grid`).

K points  P corners of a polygon  H, W pixels of the original image
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..grid import mirror_points
from ..images import read_image, read_size
from .masks import fill_polygon, read_class_mask
from .names import mirrored_name

Floats = NDArray[np.float64]

FARTHEST = 1e6  # pixels; a coordinate beyond that is a mistake


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
    names: tuple[str, ...] | None = None  # of the points, where the annotation has them
    mirrored: bool = False  # left and right exchanged, in all fields, in the image and in the mask

    def image(self) -> NDArray[np.uint8]:
        """Read the pixels: (H, W, 3), RGB."""
        image = np.array(read_image(self.path))
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
        """Exchange left and right, also in the names of points: a left eye now looks like a right one."""
        width = self.size[0]
        box, polygon, names = self.box, self.polygon, self.names
        if box is not None:
            (right, top), (left, bottom) = mirror_points(box.reshape(2, 2), width)
            box = np.array([left, top, right, bottom])
        if polygon is not None:
            polygon = mirror_points(polygon, width)
        if names is not None:
            names = tuple(mirrored_name(name) for name in names)
        points = mirror_points(self.points, width)
        return replace(self, points=points, box=box, polygon=polygon, names=names, mirrored=not self.mirrored)

    def take(self, indices: NDArray[np.intp]) -> Photo:
        """The same with some of the points."""
        names = None if self.names is None else tuple(self.names[index] for index in indices)
        return replace(self, points=self.points[indices], names=names)


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

    def mirror_target(self) -> Pair:
        """The target alone mirrored, points paired anew by name: a left eye with what looks like one now.

        As it is where points have no names, or none would be left.
        """
        target = self.target.mirror()
        places = {name: place for place, name in enumerate(target.names or ())}
        both = [(k, places[name]) for k, name in enumerate(self.source.names or ()) if name in places]
        if not both:
            return self
        own, others = np.array(both).T
        return replace(self, source=self.source.take(own), target=target.take(others))

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
    names: tuple[str, ...] | None = None

    def take(self, indices: NDArray[np.intp]) -> Labels:
        """The same with some of the points."""
        names = None if self.names is None else tuple(self.names[index] for index in indices)
        return self._replace(points=self.points[indices], names=names)


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
            if not all((np.abs(value) <= FARTHEST).all() for value in values if value is not None):
                raise InputError(f"{place}: a coordinate is not a finite number, or beyond any image")
            if labels.polygon is not None and len(labels.polygon) < 3:
                raise InputError(f"{place}: a polygon has {len(labels.polygon)} corners, but 3 are wanted")
        return self


class PairDataset:
    """A list of pairs. Items are read one by one, on the CPU; use ``collate_fn=list`` in torch's DataLoader.

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
    reads
        Patterns of the names of the lists and annotations.
    sizes
        Width and height of images, where the annotation states them: of other images it says nothing.
    """

    name: str
    root: Path
    split: str
    entries: tuple[Entry, ...]
    reads: tuple[str, ...] = ()
    sizes: Mapping[Path, tuple[int, int]] = MappingProxyType({})

    def annotation(self, index: int) -> Annotation:
        """Read what is known about a pair, without opening its images."""
        raise NotImplementedError

    def files(self) -> Iterator[Path]:
        """All files that may be read for these pairs: no output may replace them."""
        for pattern in self.reads:
            yield from self.root.glob(pattern)
        for entry in self.entries:
            yield from (entry.source, entry.target)

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, index: int) -> Pair:
        entry, (source, target, flags) = self.entries[index], self.annotation(index)
        first = Photo(entry.source, self.size(entry.source), *source)
        second = Photo(entry.target, self.size(entry.target), *target)
        pair = Pair(entry.id, range(len(self))[index], entry.category, first, second, flags)
        return pair.mirror() if entry.mirrored else pair

    def size(self, path: Path) -> tuple[int, int]:
        """Width and height of an image, which must be those that the annotation states, if it does."""
        size = read_size(path)
        stated = self.sizes.get(path, size)
        if size != stated:
            wanted = f"{stated[0]} x {stated[1]}"
            raise InputError(f"{path} has {size[0]} x {size[1]} pixels, but its annotation is for {wanted}")
        return size


def entries_by_folder(images: Iterable[tuple[Path, Path]]) -> tuple[Entry, ...]:
    """Pairs of images whose folder is their category."""
    pairs = list(images)
    ids = unique(f"{a.parent.name}/{a.stem}-{b.stem}" for a, b in pairs)
    return tuple(Entry(name, a.parent.name, a, b) for name, (a, b) in zip(ids, pairs, strict=True))


def unique(ids: Iterable[str]) -> list[str]:
    """Tell repeated ids apart: a, b, a becomes a, b, a#2."""
    counts: dict[str, int] = {}
    result: dict[str, None] = {}
    for name in ids:
        own = name
        while own in result:
            counts[name] = counts.get(name, 1) + 1
            own = f"{name}#{counts[name]}"
        result[own] = None
    return list(result)
