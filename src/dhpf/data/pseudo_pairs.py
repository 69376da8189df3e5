"""Procrustes pseudo-pairs: more pairs from the same annotation, of images whose keypoints have one shape.

Benchmarks list few of the pairs that their annotated images could form. Keypoints come in the order of their
category's parts. So keypoints of two images that are near in Procrustes distance in that order, with few left
out, are the same parts seen from nearly the same viewpoint.

K keypoints  S keypoints that two images have in common
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .pairs import Annotation, Entry, Floats, Labels, PairDataset

FEWEST_POINTS = 4  # three keypoints of different parts too often have the same shape
FEWEST_OF_MORE = 5  # where some are left out, chance has more to choose from
MOST_LEFT_OUT = 2  # of either image's keypoints
LARGEST_ROTATION = np.pi / 6

Indices = NDArray[np.intp]


class AnnotatedImage(NamedTuple):
    """An image with its keypoints, in one of the pairs that it is in."""

    category: str
    path: Path
    labels: Labels


class PseudoPairs(PairDataset):
    """All pairs of a data set's images, listed or not, that show the same parts from nearly one viewpoint.

    Parameters
    ----------
    listed
        The pairs whose images and keypoints are used.
    largest
        The largest Procrustes distance, see `procrustes_distances`.
    excluded
        Pairs that must not occur, each as the names of its two images without suffix.
    """

    def __init__(
        self, listed: PairDataset, largest: float, excluded: Collection[frozenset[str]] = ()
    ) -> None:
        self.name, self.root, self.split = listed.name, listed.root, listed.split
        self._annotations: list[Annotation] = []
        entries: list[Entry] = []
        seen = set(excluded)

        def add(first: AnnotatedImage, second: AnnotatedImage, matched: bool) -> None:
            """A pair of near shapes, unless there was one of these images before."""
            names = first.path.stem, second.path.stem
            if len(set(names)) < 2 or frozenset(names) in seen:
                return
            seen.add(frozenset(names))
            common = common_keypoints(first.labels.points, second.labels.points, largest, matched=matched)
            if common is not None:
                entries.append(Entry("-".join(names), first.category, first.path, second.path))
                self._annotations.append(
                    Annotation(first.labels.take(common[0]), second.labels.take(common[1]))
                )

        best: dict[tuple[str, Path], AnnotatedImage] = {}  # each image where most of its keypoints are known
        for index, entry in enumerate(listed.entries):
            source, target, _ = listed.annotation(index)
            ends = (
                AnnotatedImage(entry.category, entry.source, source),
                AnnotatedImage(entry.category, entry.target, target),
            )
            add(*ends, matched=True)
            for end in ends:
                before = best.setdefault(end[:2], end)
                if len(end.labels.points) > len(before.labels.points):
                    best[end[:2]] = end
        for first, second in combinations(best.values(), 2):
            if first.category == second.category:
                add(first, second, matched=False)
        self.entries = tuple(entries)

    def annotation(self, index: int) -> Annotation:
        """The keypoints that both images show."""
        return self._annotations[index]


def common_keypoints(
    a: Floats, b: Floats, largest: float, *, matched: bool = False
) -> tuple[Indices, Indices] | None:
    """The most keypoints of two images, in order, within that Procrustes distance; None if too few.

    ``matched`` says that the k-th keypoints belong together; otherwise only their order counts.
    """
    fewer, more = sorted((len(a), len(b)))
    for size in range(fewer, max(FEWEST_POINTS, more - MOST_LEFT_OUT) - 1, -1):
        if size < more and size < FEWEST_OF_MORE:
            break
        choice_a, choice_b = _choices(len(a), size), _choices(len(b), size)
        shapes_a = a[choice_a] if matched else a[choice_a][:, None]
        distances = procrustes_distances(shapes_a, b[choice_b])
        best = distances.argmin()
        if distances.flat[best] <= largest:
            row, column = (best, best) if matched else divmod(best, len(choice_b))
            return choice_a[row], choice_b[column]
    return None


@cache
def _choices(count: int, size: int) -> Indices:
    """Every way to leave out keypoints, in order: (ways, S)."""
    return np.array(list(combinations(range(count), size)))


def procrustes_distances(a: Floats, b: Floats) -> Floats:
    """Full Procrustes distance: what is left after the best translation, scale and small rotation.

    Parameters
    ----------
    a, b
        (..., S, 2): shapes of S points each; the leading dimensions broadcast.

    Returns
    -------
    (...): root mean squared distance divided by the points' root mean squared distance from their centre. 0
    for similar shapes, 1 for shapes that have nothing in common, which includes those that are rotated by
    more than 30 degrees. Mirrored shapes are not similar.
    """
    x, y = (_pre_shapes(shapes[..., 0] + 1j * shapes[..., 1]) for shapes in (a, b))
    product = (x.conj() * y).sum(-1)  # as complex numbers, the best scale and rotation are one factor
    distances: Floats = np.sqrt(np.maximum(0.0, 1 - np.abs(product) ** 2))
    return np.where(np.abs(np.angle(product)) > LARGEST_ROTATION, 1.0, distances)


def _pre_shapes(shapes: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """Centred, of length 1; points that are all in one location have no shape and stay 0."""
    centred = shapes - shapes.mean(axis=-1, keepdims=True)
    length = np.linalg.norm(centred, axis=-1, keepdims=True)
    normal: NDArray[np.complex128] = centred / np.where(length > 0, length, 1.0)
    return normal
