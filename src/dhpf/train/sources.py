"""Which pairs are trained on, and which are held out: no image on both sides, no test pair on either."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ..data.pairs import Annotation, Entry, Pair, PairDataset
from ..data.pseudo_pairs import PseudoPairs
from ..data.registry import find_dataset, open_dataset
from ..data.synthetic import SyntheticPairs
from ..errors import InputError
from ..files import cache_folder, real_path
from .config import DataConfig

SYNTHETIC = "folder:"
PSEUDO = "pseudo:"


class Subset(PairDataset):
    """Some pairs of a data set."""

    def __init__(self, dataset: PairDataset, indices: Iterable[int]) -> None:
        self.dataset, self.indices = dataset, tuple(indices)
        self.name, self.root, self.split = dataset.name, dataset.root, dataset.split
        self.entries = tuple(dataset.entries[index] for index in self.indices)

    def annotation(self, index: int) -> Annotation:
        """As the data set has it."""
        return self.dataset.annotation(self.indices[index])

    def __getitem__(self, index: int) -> Pair:
        return replace(self.dataset[self.indices[index]], index=range(len(self))[index])

    def take(self, positions: Iterable[int]) -> Subset:
        """Some of these pairs."""
        return Subset(self.dataset, [self.indices[position] for position in positions])

    def with_points(self) -> Subset:
        """The pairs with common points: others have nothing to learn from or to be judged by."""
        if isinstance(self.dataset, SyntheticPairs):  # all have, and each takes a while to make
            return self
        return self.take(k for k in range(len(self)) if len(self.annotation(k).source.points))


class Sources(NamedTuple):
    """What a run learns from and what it is judged by."""

    train: tuple[PairDataset, ...]
    validation: tuple[PairDataset, ...]
    left_out: int = 0  # pairs without common points, which the strong objective has no use for

    def training_images(self) -> list[str]:
        """Names of all images in the training pairs."""
        entries = [entry for source in self.train for entry in source.entries]
        return sorted({path.name for entry in entries for path in (entry.source, entry.target)})


def open_sources(config: DataConfig, seed: int, needs_points: bool) -> Sources:
    """Open all data sets of a recipe and divide them."""
    pseudo = [name.removeprefix(PSEUDO) for name in config.train if name.startswith(PSEUDO)]
    _check_pseudo(pseudo, needs_points)
    excluded = {_ends(entry) for name in config.exclude for entry in _excluded_entries(name, config)}
    train: dict[str, Subset] = {}
    held_out: list[Subset] = []
    left_out = 0
    for name in dict.fromkeys(name.removeprefix(PSEUDO) for name in config.train):
        listed = _distinct(_open(name, config), excluded)
        if not len(listed):
            raise InputError(f"data.train: {name} has no pair that is not excluded by data.exclude")
        useful = listed.with_points() if needs_points else listed
        if not len(useful):
            raise InputError(
                f"data.train: {name} has no keypoints, which the strong objective needs; "
                "train on another split, or set loss.objective=weak"
            )
        left_out += len(listed) - len(useful)
        # What is only paired anew is not divided by its list; its images can be.
        apart = _held_out(useful, config, config.holdout if name in config.train else 0.0, seed)
        train[name] = useful.take(k for k in range(len(useful)) if k not in apart)
        judged = useful.take(sorted(apart)).with_points()
        if apart and not len(judged):
            raise InputError(
                f"data.holdout: {name} has no keypoints to validate on; "
                "set data.holdout=0 and name a split that has them in data.validate"
            )
        held_out.append(judged.take(spaced(range(len(judged)), config.validation_pairs)))
    unseen = {mark for part in held_out for entry in part.entries for mark in _marks(entry, part)}
    for name, part in train.items():
        train[name] = part.take(k for k, e in enumerate(part.entries) if not _marks(e) & unseen)
        if not len(train[name]):
            raise InputError(
                f"data.train: nothing of {name} is left to train on, as images connect all its pairs; lower "
                "data.holdout (data.holdout_images for spair-71k), or set it to 0 and name data.validate"
            )
    for name in config.validate:
        judged = _distinct(_open(name, config), excluded).with_points()
        if not len(judged):
            raise InputError(f"data.validate: {name} has no pair with keypoints that is not in data.exclude")
        held_out.append(judged.take(spaced(range(len(judged)), config.validation_pairs)))
    if not any(len(part) for part in held_out):
        raise InputError("no pair to validate on: raise data.holdout, or name a data set in data.validate")
    excluded |= {_ends(entry) for part in held_out for entry in part.entries}
    parts: list[PairDataset] = [train[name] for name in train if name in config.train]
    parts += [_pseudo_pairs(name, train[name], config.pseudo_distance, excluded) for name in pseudo]
    return Sources(tuple(parts), tuple(part for part in held_out if len(part)), left_out)


def _check_pseudo(names: Sequence[str], needs_points: bool) -> None:
    for name in names:
        if not needs_points:
            raise InputError(
                f"data.train: {PSEUDO}{name} pairs images by keypoints, which the weak objective must not see"
            )
        if name.startswith(SYNTHETIC):
            raise InputError(
                f"data.train: {PSEUDO}{name}; a synthetic pair shows one image: none to pair anew"
            )


def _pseudo_pairs(
    name: str, listed: PairDataset, distance: float, excluded: Collection[frozenset[str]]
) -> PseudoPairs:
    found = PseudoPairs(listed, distance, excluded)
    if not len(found):
        raise InputError(
            f"data.train: {PSEUDO}{name}: no two images have keypoints of similar shape; "
            "raise data.pseudo_distance or leave it out"
        )
    return found


def data_root(config: DataConfig) -> Path:
    """The folder of the data sets' folders."""
    return Path(config.root).expanduser() if config.root else cache_folder() / "datasets"


def _open(name: str, config: DataConfig) -> PairDataset:
    if name.startswith(SYNTHETIC):
        return SyntheticPairs(Path(name.removeprefix(SYNTHETIC)).expanduser())
    dataset, slash, split = name.partition("/")
    if not slash:
        raise InputError(
            f"data: '{name}'; wanted data set/split, such as pf-pascal/val or {PSEUDO}pf-pascal/val, "
            f"or {SYNTHETIC}PATH"
        )
    root = data_root(config) / find_dataset(dataset).folder
    if not root.is_dir():
        raise InputError(
            f"no folder {root} for {name}; give the folder that holds it: --set data.root=FOLDER"
        )
    return open_dataset(dataset, root, split)


def _excluded_entries(name: str, config: DataConfig) -> Iterable[Entry]:
    """Pairs of a split that is excluded; it matters only if its data set is used."""
    used = {one.removeprefix(PSEUDO).partition("/")[0] for one in (*config.train, *config.validate)}
    return _open(name, config).entries if name.partition("/")[0] in used else ()


def _ends(entry: Entry) -> frozenset[str]:
    """Both images by names, which benchmarks share; of a synthetic pair it is one, by folder and name."""
    if entry.source == entry.target:
        return frozenset([entry.id])
    return frozenset((entry.source.stem, entry.target.stem))


def _distinct(dataset: PairDataset, excluded: Collection[frozenset[str]]) -> Subset:
    """Each pair once: mirrored and reversed copies are made by augmentation."""
    first: dict[frozenset[str], int] = {}
    for index, entry in enumerate(dataset.entries):
        first.setdefault(_ends(entry), index)
    return Subset(dataset, [index for ends, index in first.items() if ends not in excluded])


def _held_out(part: Subset, config: DataConfig, holdout: float, seed: int) -> set[int]:
    """Pairs for validation: between some images of each category, or whole groups of connected pairs."""
    ends = [_ends(entry) for entry in part.entries]
    if config.holdout_images and part.name == "spair-71k":
        chosen: set[str] = set()
        for category in {entry.category for entry in part.entries}:
            own = [pair for pair, entry in zip(ends, part.entries, strict=True) if entry.category == category]
            chosen |= set(_drawn(frozenset().union(*own), seed)[: config.holdout_images])
        return {position for position, pair in enumerate(ends) if pair <= chosen}
    groups = _connected(ends)
    apart: set[int] = set()
    for name in _drawn(groups, seed):
        if len(apart) >= holdout * len(part):
            break
        apart |= set(groups[name])
    return apart


def _connected(pairs: Sequence[frozenset[str]]) -> dict[str, list[int]]:
    """Groups of pairs that share images, directly or by way of others: first name, positions of the pairs."""
    names = sorted(frozenset().union(*pairs))
    number = {name: k for k, name in enumerate(names)}
    ends = np.array([(number[min(pair)], number[max(pair)]) for pair in pairs])
    graph = coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(len(names),) * 2)
    labels = connected_components(graph, directed=False)[1]
    _, first = np.unique(labels, return_index=True)
    groups: dict[str, list[int]] = {}
    for position, end in enumerate(ends[:, 0]):
        groups.setdefault(names[first[labels[end]]], []).append(position)
    return groups


def _drawn(names: Iterable[str], seed: int) -> list[str]:
    """In a random order in which each name has a place of its own, whatever the others are."""
    return sorted(names, key=lambda name: hashlib.sha256(f"{seed}|{name}".encode()).hexdigest())


def _marks(entry: Entry, part: Subset | None = None) -> set[str]:
    """What tells a pair's images in other data sets: the files, and names where they mean something."""
    paths = entry.source, entry.target
    nameless = part is not None and isinstance(part.dataset, SyntheticPairs)
    return {str(real_path(path)) for path in paths} | (set() if nameless else {path.stem for path in paths})


def spaced(values: Sequence[int], most: int) -> list[int]:
    """At most that many, evenly spaced."""
    if len(values) <= most:
        return list(values)
    return [values[int(k)] for k in np.linspace(0, len(values) - 1, most)]
