"""Annotations: images, and the labelled objects in them. Every format is read into this and written from it.

All coordinates are x then y, in pixels of the upright image, pixel centres at whole numbers.

K keypoints of a category  P corners of a polygon
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.annotations import inner_path
from ..errors import InputError

Floats = NDArray[np.float64]

FARTHEST = 1e6  # pixels; a coordinate beyond that is a mistake
MOST_KEYPOINTS = 1000  # of a category
ABSENT, HIDDEN, VISIBLE = 0, 1, 2  # visibility, as in COCO: not labelled; labelled but covered; visible


@dataclass(frozen=True)
class Category:
    """One kind of object."""

    name: str
    keypoints: tuple[str, ...] = ()  # (K,) names
    skeleton: tuple[tuple[int, int], ...] = ()  # positions of keypoints that are joined, from 0

    def __post_init__(self) -> None:
        for what, name in (("category", self.name), *(("keypoint", name) for name in self.keypoints)):
            if not isinstance(name, str) or not name.isprintable() or not name.strip():
                raise InputError(f"a {what}'s name is missing, or not a text of one line")
        if len(self.keypoints) > MOST_KEYPOINTS:
            raise InputError(f"{len(self.keypoints):,} keypoints; at most {MOST_KEYPOINTS:,} are wanted")
        if len(set(self.keypoints)) < len(self.keypoints):
            twice = next(name for name in self.keypoints if self.keypoints.count(name) > 1)
            raise InputError(f"two keypoints are called {twice[:40]!r}; each needs a name of its own")
        if not all(0 <= end < len(self.keypoints) for bone in self.skeleton for end in bone):
            raise InputError("the skeleton joins a keypoint that does not exist")


@dataclass(frozen=True, eq=False)
class LabelledObject:
    """One object in an image. Without scores, a person marked it."""

    category: Category
    keypoints: Floats = field(default_factory=lambda: np.zeros((0, 3)))  # (K, 3): x, y, visibility
    box: Floats | None = None  # (4,): x1, y1, x2, y2
    polygons: tuple[Floats, ...] = ()  # (P, 2) each; the object is all of them
    scores: Floats | None = None  # (K,) in [0, 1], how sure each keypoint is

    def __post_init__(self) -> None:
        for name in ("keypoints", "box", "scores"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, np.asarray(getattr(self, name), np.float64))
        object.__setattr__(self, "polygons", tuple(np.asarray(one, np.float64) for one in self.polygons))
        wanted = len(self.category.keypoints)
        if self.keypoints.shape != (wanted, 3):
            raise InputError(f"{len(self.keypoints)} keypoints; {self.category.name} has {wanted}")
        _check_finite("keypoints", self.keypoints)
        if not np.isin(self.keypoints[:, 2], (ABSENT, HIDDEN, VISIBLE)).all():
            raise InputError("a keypoint's visibility is not 0, 1 or 2")
        if self.box is not None:
            _check_finite("box", self.box)
            if self.box.shape != (4,) or not (self.box[:2] < self.box[2:]).all():
                raise InputError("the box is empty or not made of 4 numbers")
        for polygon in self.polygons:
            _check_finite("polygon", polygon)
            if polygon.ndim != 2 or polygon.shape[1] != 2 or len(polygon) < 3:
                raise InputError("a polygon has fewer than three corners")
        if self.scores is not None:
            if self.scores.shape != (wanted,):
                raise InputError(f"{len(self.scores)} scores; {self.category.name} has {wanted} keypoints")
            if not ((self.scores >= 0) & (self.scores <= 1)).all():
                raise InputError("a score is not between 0 and 1")

    @property
    def shown(self) -> NDArray[np.bool_]:
        """(K,): the keypoints that are labelled."""
        return self.keypoints[:, 2] > ABSENT

    @property
    def confidence(self) -> float:
        """How sure the object is: the mean score of its labelled keypoints; 1 where a person marked it."""
        if self.scores is None:
            return 1.0
        return float(self.scores[self.shown].mean()) if self.shown.any() else 0.0

    @property
    def points(self) -> dict[str, tuple[float, float]]:
        """The labelled keypoints by name: x, y."""
        rows = zip(self.category.keypoints, self.keypoints.tolist(), strict=True)
        return {name: (x, y) for name, (x, y, visible) in rows if visible}

    def bounds(self) -> Floats | None:
        """The box, else that around polygons, else around keypoints: x1, y1, x2, y2; None of nothing."""
        if self.box is not None:
            return self.box
        points = np.vstack(self.polygons or (self.keypoints[self.shown, :2],))
        return np.concatenate([points.min(axis=0), points.max(axis=0)]) if len(points) else None


@dataclass(frozen=True, eq=False)
class AnnotatedImage:
    """An image and the objects in it, perhaps none."""

    file_name: str  # below the folder of images, with / between folders
    size: tuple[int, int] | None  # width and height; None where the file does not tell
    objects: tuple[LabelledObject, ...] = ()

    def __post_init__(self) -> None:
        inner_path(self.file_name, "the image's name")
        if self.size is not None and not all(0 < side <= FARTHEST for side in self.size):
            raise InputError(f"{self.file_name}: a size of {self.size[0]} x {self.size[1]} pixels")

    @property
    def confidence(self) -> float:
        """That of its least sure object; 1 without objects."""
        return min((one.confidence for one in self.objects), default=1.0)


@dataclass(frozen=True, eq=False)
class Annotations:
    """Annotated images, in order."""

    categories: tuple[Category, ...]
    images: tuple[AnnotatedImage, ...]
    notes: tuple[str, ...] = ()  # what the file said that is not here, a line a kind

    def __post_init__(self) -> None:
        names = {category.name for category in self.categories}
        if len(names) < len(self.categories):
            raise InputError("two categories have the same name; each needs a name of its own")
        known = set(self.categories)
        if not all(one.category in known for image in self.images for one in image.objects):
            raise InputError("an object is of a category that is not listed")

    def __iter__(self) -> Iterator[AnnotatedImage]:
        return iter(self.images)

    def __len__(self) -> int:
        return len(self.images)

    def least_sure_first(self) -> list[AnnotatedImage]:
        """The images in the order in which people should look at them."""
        return sorted(self.images, key=lambda image: (image.confidence, image.file_name))

    def to_coco(self) -> dict[str, Any]:
        """As COCO's format for keypoints has it; each annotation also has ``scores``, one a keypoint."""
        from .formats.coco import to_coco

        return to_coco(self)

    def save(self, path: str | Path, format: str = "coco") -> None:
        """Write a file; a warning says what the format cannot hold.

        Parameters
        ----------
        format
            ``coco``, ``cvat``, ``label-studio``, ``deeplabcut``, ``json`` or ``csv``.
        """
        from ..files import write_atomically
        from .formats import encode

        content, lost = encode(self, format)
        for line in lost:
            warnings.warn(line, stacklevel=2)
        write_atomically(Path(path), content)

    @staticmethod
    def read(path: str | Path) -> Annotations:
        """Read a file of any of the formats, which is told from its content."""
        from .formats import read_annotations

        return read_annotations(Path(path))


def _check_finite(what: str, values: Floats) -> None:
    if not (np.abs(values) <= FARTHEST).all():  # NaN is not, either
        raise InputError(f"the {what} holds a number that is not finite, or farther than {FARTHEST:,.0f}")
