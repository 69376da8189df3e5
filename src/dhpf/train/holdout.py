"""Which pairs of a data set are kept for validation: no image on both sides, the same on every machine."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ..data.pairs import Entry, PairDataset
from ..files import real_path
from .config import DataConfig

# Benchmarks in which a file's name without its ending tells the photo, and the same photo in all of them.
NAMED_BY_STEM = ("pf-pascal", "pf-willow", "spair-71k")


class ImageNames:
    """One name for an image, in whichever data sets of a recipe it occurs.

    Benchmarks share photos under the same file names, and people annotate photos of benchmarks. So an image
    that is called like one of a benchmark in use is that photo. Any other image is told by where it lies.
    """

    def __init__(self, datasets: Iterable[PairDataset]) -> None:
        entries = (e for dataset in datasets if dataset.name in NAMED_BY_STEM for e in dataset.entries)
        self.stems = frozenset(path.stem for entry in entries for path in (entry.source, entry.target))
        self._resolved = cache(lambda path: str(real_path(path)))

    def of(self, entry: Entry) -> frozenset[str]:
        """Those of both images of a pair; a synthetic pair shows one."""
        paths = entry.source, entry.target
        return frozenset(path.stem if path.stem in self.stems else self._resolved(path) for path in paths)

    def of_all(self, parts: Iterable[PairDataset]) -> set[frozenset[str]]:
        """Those of all pairs."""
        return {self.of(entry) for part in parts for entry in part.entries}


def holdout_of(
    part: PairDataset, names: ImageNames, config: DataConfig, seed: int, divided: bool
) -> set[int]:
    """Pairs for validation: whole groups of connected pairs, or pairs between some images of each category.

    Images where there are no groups to divide, as they connect most pairs of a category, or where no fraction
    of the groups is asked for.
    """
    ends = [names.of(entry) for entry in part.entries]
    groups = _connected(ends)
    most_in_a_group = Counter[str]()  # of the pairs of a category
    for positions in groups.values():
        most_in_a_group |= Counter(part.entries[position].category for position in positions)
    connected = most_in_a_group.total() > len(part) / 2
    if config.holdout_images and (connected or not config.holdout):
        chosen: set[str] = set()
        for category in {entry.category for entry in part.entries}:
            own = [pair for pair, entry in zip(ends, part.entries, strict=True) if entry.category == category]
            chosen |= set(_drawn(frozenset().union(*own), part.root, seed)[: config.holdout_images])
        return {position for position, pair in enumerate(ends) if pair <= chosen}
    apart: set[int] = set()
    for name in _drawn(groups, part.root, seed):
        if len(apart) >= (config.holdout if divided else 0) * len(part):
            break
        apart |= set(groups[name])
    return apart


def _connected(pairs: Sequence[frozenset[str]]) -> dict[str, list[int]]:
    """Groups of pairs that share images, directly or by way of others: first name, positions of the pairs."""
    names = sorted(frozenset().union(*pairs))
    number = {name: k for k, name in enumerate(names)}
    # SciPy 1.11 takes no longer integers
    ends = np.array([(number[min(pair)], number[max(pair)]) for pair in pairs], np.int32)
    graph = coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(len(names),) * 2)
    labels = connected_components(graph, directed=False)[1]
    _, first = np.unique(labels, return_index=True)
    groups: dict[str, list[int]] = {}
    for position, end in enumerate(ends[:, 0]):
        groups.setdefault(names[first[labels[end]]], []).append(position)
    return groups


def _drawn(names: Iterable[str], root: Path, seed: int) -> list[str]:
    """In a random order in which each name has a place of its own, whatever the others are.

    Paths count from the data set's folder: the order is the same on every machine.
    """
    top = real_path(root)

    def lot(name: str) -> str:
        portable = Path(os.path.relpath(name, top)).as_posix() if Path(name).is_absolute() else name
        return hashlib.sha256(f"{seed}|{portable}".encode()).hexdigest()

    return sorted(names, key=lot)


def spaced(values: Sequence[int], most: int) -> list[int]:
    """At most that many, evenly spaced."""
    if len(values) <= most:
        return list(values)
    return [values[int(k)] for k in np.linspace(0, len(values) - 1, most)]
