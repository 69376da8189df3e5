"""Which pairs are trained on, and which are held out: no photo on both sides, no test pair on either."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ..data.pairs import Annotation, Entry, PairDataset
from ..data.registry import find_dataset, open_dataset
from ..data.synthetic import SyntheticPairs
from ..errors import InputError
from ..files import cache_folder
from .config import DataConfig

SYNTHETIC = "folder:"


class Subset(PairDataset):
    """Some pairs of a data set."""

    def __init__(self, dataset: PairDataset, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, tuple(indices)
        self.name, self.root, self.split = dataset.name, dataset.root, dataset.split
        self.entries = tuple(dataset.entries[index] for index in indices)

    def annotation(self, index: int) -> Annotation:
        """As the data set has it."""
        return self.dataset.annotation(self.indices[index])


class Sources(NamedTuple):
    """What a run learns from and what it is judged by."""

    train: tuple[PairDataset, ...]
    validation: tuple[PairDataset, ...]

    def training_images(self) -> list[str]:
        """Names of all photos in the training pairs."""
        return sorted(
            {path.name for source in self.train for e in source.entries for path in (e.source, e.target)}
        )


def open_sources(config: DataConfig, seed: int, needs_points: bool) -> Sources:
    """Open all data sets of a recipe and divide them."""
    excluded = {_ends(entry) for name in config.exclude for entry in _excluded_entries(name, config)}
    train: list[PairDataset] = []
    held_out: list[PairDataset] = []
    for name in config.train:
        dataset = _open(name, config)
        if isinstance(dataset, SyntheticPairs):
            train.append(dataset)
            continue
        if needs_points and len(dataset.annotation(0).source.points) == 0:
            raise InputError(
                f"data.train: {name} has no keypoints, which the strong objective needs; "
                "train on another split, or set loss.objective=weak"
            )
        kept = _distinct(dataset, excluded)
        if not kept:
            raise InputError(f"data.train: {name} has no pair that is not excluded by data.exclude")
        apart = _held_out(dataset, kept, config, seed)
        train.append(Subset(dataset, [k for k in kept if k not in apart]))
        held_out.append(Subset(dataset, _spaced(sorted(apart), config.validation_pairs)))
    for name in config.validate:
        dataset = _open(name, config)
        held_out.append(Subset(dataset, _spaced(_distinct(dataset, excluded), config.validation_pairs)))
    if not any(held_out):
        raise InputError("no pair to validate on: raise data.holdout, or name a data set in data.validate")
    unseen = {stem for part in held_out for entry in part.entries for stem in _ends(entry)}
    if not config.validate:
        train = [_without(part, unseen) if isinstance(part, Subset) else part for part in train]
    empty = [name for name, part in zip(config.train, train, strict=True) if not len(part)]
    if empty:
        raise InputError(f"data.train: nothing of {empty[0]} is left to train on; lower data.holdout")
    return Sources(tuple(train), tuple(part for part in held_out if len(part)))


def data_root(config: DataConfig) -> Path:
    """The folder of the data sets' folders."""
    return Path(config.root).expanduser() if config.root else cache_folder() / "data"


def _open(name: str, config: DataConfig) -> PairDataset:
    if name.startswith(SYNTHETIC):
        return SyntheticPairs(Path(name.removeprefix(SYNTHETIC)).expanduser())
    dataset, slash, split = name.partition("/")
    if not slash:
        raise InputError(f"data: '{name}'; wanted data set/split, such as pf-pascal/val, or {SYNTHETIC}PATH")
    root = data_root(config) / find_dataset(dataset).folder
    if not root.is_dir():
        raise InputError(
            f"no folder {root} for {name}; give the folder that holds it: --set data.root=FOLDER"
        )
    return open_dataset(dataset, root, split)


def _excluded_entries(name: str, config: DataConfig) -> Iterable[Entry]:
    """Pairs of a split that is excluded; it matters only if its data set is used."""
    used = {one.partition("/")[0] for one in (*config.train, *config.validate)}
    return _open(name, config).entries if name.partition("/")[0] in used else ()


def _ends(entry: Entry) -> frozenset[str]:
    return frozenset((entry.source.stem, entry.target.stem))


def _distinct(dataset: PairDataset, excluded: set[frozenset[str]]) -> list[int]:
    """Each pair once: mirrored and reversed copies are made by augmentation."""
    seen = set(excluded)
    kept = []
    for index, entry in enumerate(dataset.entries):
        if _ends(entry) not in seen:
            seen.add(_ends(entry))
            kept.append(index)
    return kept


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
    ends = [
        [numbers.setdefault(p.stem, len(numbers)) for p in (e.source, e.target)] for e in entries.values()
    ]
    graph = coo_array((np.ones(len(ends)), tuple(np.transpose(ends))), shape=(len(numbers),) * 2)
    group = connected_components(graph, directed=False)[1]
    of_pair = dict(zip(entries, (int(group[a]) for a, _ in ends), strict=True))
    names = {
        number: min(stem for stem, k in numbers.items() if group[k] == number)
        for number in set(of_pair.values())
    }
    apart: set[int] = set()
    for number in sorted(names, key=lambda number: _lot(names[number], seed)):
        if len(apart) >= config.holdout * len(kept):
            break
        apart |= {index for index, own in of_pair.items() if own == number}
    return apart


def _without(part: Subset, stems: set[str]) -> Subset:
    """The pairs that show none of these photos."""
    kept = [k for k, entry in zip(part.indices, part.entries, strict=True) if not (_ends(entry) & stems)]
    return Subset(part.dataset, kept)


def _spaced(indices: Sequence[int], most: int) -> list[int]:
    """At most that many, evenly spaced."""
    if len(indices) <= most:
        return list(indices)
    return [indices[int(k)] for k in np.linspace(0, len(indices) - 1, most)]


def _lot(name: str, seed: int) -> str:
    """A random number that belongs to a name."""
    return hashlib.sha256(f"{seed}|{name}".encode()).hexdigest()
