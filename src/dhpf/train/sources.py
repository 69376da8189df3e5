"""Which pairs are trained on, and which are held out: no photo on both sides, no test pair on either."""

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
from ..files import cache_folder
from .config import DataConfig

SYNTHETIC = "folder:"
ALIKE = "alike:"


class Subset(PairDataset):
    """Some pairs of a data set."""

    def __init__(self, dataset: PairDataset, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, tuple(indices)
        self.name, self.root, self.split = dataset.name, dataset.root, dataset.split
        self.entries = tuple(dataset.entries[index] for index in indices)

    def annotation(self, index: int) -> Annotation:
        """As the data set has it."""
        return self.dataset.annotation(self.indices[index])

    def __getitem__(self, index: int) -> Pair:
        return replace(self.dataset[self.indices[index]], index=range(len(self))[index])


class Sources(NamedTuple):
    """What a run learns from and what it is judged by."""

    train: tuple[PairDataset, ...]
    validation: tuple[PairDataset, ...]
    left_out: int = 0  # pairs without common points, which the strong objective has no use for

    def training_images(self) -> list[str]:
        """Names of all photos in the training pairs."""
        return sorted(
            {path.name for source in self.train for e in source.entries for path in (e.source, e.target)}
        )


def open_sources(config: DataConfig, seed: int, needs_points: bool) -> Sources:
    """Open all data sets of a recipe and divide them."""
    alike = [name.removeprefix(ALIKE) for name in config.train if name.startswith(ALIKE)]
    _check_alike(alike, needs_points)
    excluded = {_ends(entry) for name in config.exclude for entry in _excluded_entries(name, config)}
    left_out = 0
    train: dict[str, Subset] = {}
    held_out: list[Subset] = []
    for name in dict.fromkeys(name.removeprefix(ALIKE) for name in config.train):
        dataset = _open(name, config)
        kept = _distinct(dataset, excluded)
        if not kept:
            raise InputError(f"data.train: {name} has no pair that is not excluded by data.exclude")
        if needs_points:
            useful = _with_points(dataset, kept)
            if not useful:
                raise InputError(
                    f"data.train: {name} has no keypoints, which the strong objective needs; "
                    "train on another split, or set loss.objective=weak"
                )
            left_out += len(kept) - len(useful)
            kept = useful
        # What is only paired anew is not divided by its list; its photos can be.
        division = config if name in config.train else replace(config, holdout=0.0)
        apart = _held_out(dataset, kept, division, seed)
        train[name] = Subset(dataset, [k for k in kept if k not in apart])
        judged = _spaced(_with_points(dataset, sorted(apart)), config.validation_pairs)
        if apart and not judged:
            raise InputError(
                f"data.holdout: {name} has no keypoints to validate on; "
                "set data.holdout=0 and name a split that has them in data.validate"
            )
        held_out.append(Subset(dataset, judged))
    unseen: set[str] = set()
    for part in held_out:
        by_name = not isinstance(part.dataset, SyntheticPairs)
        unseen |= {mark for entry in part.entries for mark in _marks(entry, by_name)}
    for name, part in train.items():
        train[name] = _without(part, unseen)
        if not len(train[name]):
            raise InputError(
                f"data.train: nothing of {name} is left to train on, as photos connect all its pairs; lower "
                "data.holdout (data.holdout_images for spair-71k), or set it to 0 and name data.validate"
            )
    for name in config.validate:
        dataset = _open(name, config)
        judged = _with_points(dataset, _distinct(dataset, excluded))
        if not judged:
            raise InputError(f"data.validate: {name} has no pair with keypoints that is not in data.exclude")
        held_out.append(Subset(dataset, _spaced(judged, config.validation_pairs)))
    if not any(len(part) for part in held_out):
        raise InputError("no pair to validate on: raise data.holdout, or name a data set in data.validate")
    excluded |= {_ends(entry) for part in held_out for entry in part.entries}
    parts: list[PairDataset] = [train[name] for name in train if name in config.train]
    parts += [_alike(name, train[name], config.alike, excluded) for name in alike]
    return Sources(tuple(parts), tuple(part for part in held_out if len(part)), left_out)


def _check_alike(names: Sequence[str], needs_points: bool) -> None:
    for name in names:
        if not needs_points:
            raise InputError(
                f"data.train: {ALIKE}{name} pairs photos by keypoints, which the weak objective must not see"
            )
        if name.startswith(SYNTHETIC):
            raise InputError(
                f"data.train: {ALIKE}{name}; a synthetic pair shows one photo: none to pair anew"
            )


def _alike(
    name: str, listed: PairDataset, difference: float, excluded: Collection[frozenset[str]]
) -> PseudoPairs:
    found = PseudoPairs(listed, difference, excluded)
    if not len(found):
        raise InputError(f"data.train: {ALIKE}{name}: no photos are alike; raise data.alike or leave it out")
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
            f"data: '{name}'; wanted data set/split, such as pf-pascal/val or {ALIKE}pf-pascal/val, "
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
    used = {one.removeprefix(ALIKE).partition("/")[0] for one in (*config.train, *config.validate)}
    return _open(name, config).entries if name.partition("/")[0] in used else ()


def _names(entry: Entry) -> tuple[str, str]:
    """Both photos by names, which benchmarks share; of a synthetic pair it is one, by folder and name."""
    if entry.source == entry.target:
        return entry.id, entry.id
    return entry.source.stem, entry.target.stem


def _ends(entry: Entry) -> frozenset[str]:
    return frozenset(_names(entry))


def _distinct(dataset: PairDataset, excluded: set[frozenset[str]]) -> list[int]:
    """Each pair once: mirrored and reversed copies are made by augmentation."""
    seen = set(excluded)
    kept = []
    for index, entry in enumerate(dataset.entries):
        if _ends(entry) not in seen:
            seen.add(_ends(entry))
            kept.append(index)
    return kept


def _with_points(dataset: PairDataset, indices: Sequence[int]) -> list[int]:
    """The pairs with common points: others have nothing to learn from or to be judged by."""
    if isinstance(dataset, SyntheticPairs):  # all have, and each takes a while to make
        return list(indices)
    return [index for index in indices if len(dataset.annotation(index).source.points)]


def _held_out(dataset: PairDataset, kept: Sequence[int], config: DataConfig, seed: int) -> set[int]:
    """Pairs for validation: between some images of each category, or whole groups of connected pairs."""
    entries = {index: dataset.entries[index] for index in kept}
    if config.holdout_images and dataset.name == "spair-71k":
        chosen: set[str] = set()
        for category in sorted({entry.category for entry in entries.values()}):
            images = {stem for e in entries.values() if e.category == category for stem in _ends(e)}
            chosen |= set(sorted(images, key=lambda name: _lot(name, seed))[: config.holdout_images])
        return {index for index, entry in entries.items() if _ends(entry) <= chosen}
    numbers: dict[str, int] = {}
    ends = [[numbers.setdefault(name, len(numbers)) for name in _names(e)] for e in entries.values()]
    graph = coo_array((np.ones(len(ends)), tuple(np.transpose(ends))), shape=(len(numbers),) * 2)
    group = connected_components(graph, directed=False)[1]
    of_pair = dict(zip(entries, (int(group[a]) for a, _ in ends), strict=True))
    names = {
        number: min(name for name, k in numbers.items() if group[k] == number)
        for number in set(of_pair.values())
    }
    apart: set[int] = set()
    for number in sorted(names, key=lambda number: _lot(names[number], seed)):
        if len(apart) >= config.holdout * len(kept):
            break
        apart |= {index for index, own in of_pair.items() if own == number}
    return apart


def _marks(entry: Entry, by_name: bool) -> set[str]:
    """What tells a pair's photos in other data sets: the files, and names where they mean something."""
    paths = entry.source, entry.target
    return {str(path.resolve()) for path in paths} | {path.stem for path in paths if by_name}


def _without(part: Subset, photos: set[str]) -> Subset:
    """The pairs that show none of these photos."""
    entries = zip(part.indices, part.entries, strict=True)
    return Subset(part.dataset, [k for k, entry in entries if not _marks(entry, by_name=True) & photos])


def _spaced(indices: Sequence[int], most: int) -> list[int]:
    """At most that many, evenly spaced."""
    if len(indices) <= most:
        return list(indices)
    return [indices[int(k)] for k in np.linspace(0, len(indices) - 1, most)]


def _lot(name: str, seed: int) -> str:
    """A random number that belongs to a name."""
    return hashlib.sha256(f"{seed}|{name}".encode()).hexdigest()
