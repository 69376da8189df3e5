"""More pairs from the same annotation: photos of a category whose points have the same shape.

Benchmarks list few of the pairs that their annotated photos could form. Points come in the order of their
category's parts, so points of two photos that have nearly the same shape in that order, with few left out,
are the same parts seen from nearly the same side.

K points  S points that two photos have in common
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

FEWEST_POINTS = 4  # three points of different parts too often have the same shape
FEWEST_OF_MORE = 5  # where some are left out, chance has more to choose from
MOST_LEFT_OUT = 2  # of either photo's points
LARGEST_TURN = np.pi / 6

Indices = NDArray[np.intp]


class Shown(NamedTuple):
    """A photo with its points, in one of the pairs that it is in."""

    category: str
    photo: Path
    labels: Labels


class PseudoPairs(PairDataset):
    """All pairs of a data set's photos, listed or not, that show the same parts from nearly the same side.

    Parameters
    ----------
    listed
        The pairs whose photos and points are used.
    difference
        The largest difference in shape, see `shape_differences`.
    excluded
        Pairs that must not occur, each as the names of its two photos without suffix.
    """

    def __init__(
        self, listed: PairDataset, difference: float, excluded: Collection[frozenset[str]] = ()
    ) -> None:
        self.name, self.root, self.split = listed.name, listed.root, listed.split
        self._annotations: list[Annotation] = []
        entries: list[Entry] = []
        seen = set(excluded)

        def add(first: Shown, second: Shown, known: bool) -> None:
            """A pair that is alike, unless there was one of these photos before."""
            names = first.photo.stem, second.photo.stem
            if len(set(names)) < 2 or frozenset(names) in seen:
                return
            seen.add(frozenset(names))
            common = common_parts(first.labels.points, second.labels.points, difference, known=known)
            if common is not None:
                entries.append(Entry("-".join(names), first.category, first.photo, second.photo))
                source = first.labels._replace(points=first.labels.points[common[0]])
                target = second.labels._replace(points=second.labels.points[common[1]])
                self._annotations.append(Annotation(source, target))

        best: dict[tuple[str, Path], Shown] = {}  # each photo where most of its points are known
        for index, entry in enumerate(listed.entries):
            source, target, _ = listed.annotation(index)
            ends = Shown(entry.category, entry.source, source), Shown(entry.category, entry.target, target)
            add(*ends, known=True)
            for end in ends:
                before = best.setdefault(end[:2], end)
                if len(end.labels.points) > len(before.labels.points):
                    best[end[:2]] = end
        for first, second in combinations(best.values(), 2):
            if first.category == second.category:
                add(first, second, known=False)
        self.entries = tuple(entries)

    def annotation(self, index: int) -> Annotation:
        """The points that both photos show."""
        return self._annotations[index]


def common_parts(
    a: Floats, b: Floats, difference: float, *, known: bool = False
) -> tuple[Indices, Indices] | None:
    """The most points of two photos, in order, whose shapes differ by at most that much; None if too few.

    ``known`` says that the k-th points belong together; otherwise only their order counts.
    """
    fewer, more = sorted((len(a), len(b)))
    for size in range(fewer, max(FEWEST_POINTS, more - MOST_LEFT_OUT) - 1, -1):
        if size < more and size < FEWEST_OF_MORE:
            break
        choice_a, choice_b = _choices(len(a), size), _choices(len(b), size)
        shapes_a = a[choice_a] if known else a[choice_a][:, None]
        found = shape_differences(shapes_a, b[choice_b])
        best = found.argmin()
        if found.flat[best] <= difference:
            row, column = (best, best) if known else divmod(best, len(choice_b))
            return choice_a[row], choice_b[column]
    return None


@cache
def _choices(count: int, size: int) -> Indices:
    """Every way to leave out points, in order: (ways, S)."""
    return np.array(list(combinations(range(count), size)))


def shape_differences(a: Floats, b: Floats) -> Floats:
    """What is left between shapes after the best shift, scale and small rotation.

    Parameters
    ----------
    a, b
        (..., S, 2): shapes of S points each; the leading dimensions broadcast.

    Returns
    -------
    (...): root mean squared distance divided by the points' root mean squared distance from their centre. 0
    for similar shapes, 1 for shapes that have nothing in common, which includes those that are turned by more
    than 30 degrees. Mirrored shapes are not similar.
    """
    x, y = (_normal(shapes[..., 0] + 1j * shapes[..., 1]) for shapes in (a, b))
    common = (x.conj() * y).sum(-1)  # as complex numbers, the best scale and rotation are one factor
    differences: Floats = np.sqrt(np.maximum(0.0, 1 - np.abs(common) ** 2))
    return np.where(np.abs(np.angle(common)) > LARGEST_TURN, 1.0, differences)


def _normal(shapes: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """Centred, of length 1; points that are all in one place have no shape and stay 0."""
    centred = shapes - shapes.mean(axis=-1, keepdims=True)
    length = np.linalg.norm(centred, axis=-1, keepdims=True)
    normal: NDArray[np.complex128] = centred / np.where(length > 0, length, 1.0)
    return normal
