"""Which pairs are trained on, and which are held out: no image on both sides, no test pair on either."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ..data.coco import CocoKeypoints
from ..data.pairs import Annotation, Pair, PairDataset, unique
from ..data.pseudo_pairs import PseudoPairs
from ..data.registry import find_dataset, open_dataset
from ..data.synthetic import SyntheticPairs
from ..errors import InputError
from ..files import cache_folder
from .config import DataConfig
from .holdout import ImageNames, holdout_of, spaced
from .masks import shows_objects

SYNTHETIC = "folder:"
PSEUDO = "pseudo:"
COCO = "coco:"


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

    def with_objects(self) -> Subset:
        """The pairs of which is known where the objects are."""
        return self.take(k for k in range(len(self)) if shows_objects(self.annotation(k)))


class Sources(NamedTuple):
    """What a run learns from and what it is judged by."""

    train: tuple[PairDataset, ...]
    validation: tuple[PairDataset, ...]
    left_out: int = 0  # pairs without what the objective needs: common points, or masks or boxes

    def training_images(self) -> list[str]:
        """Names of all images in the training pairs."""
        entries = [entry for source in self.train for entry in source.entries]
        return sorted({path.name for entry in entries for path in (entry.source, entry.target)})


def open_sources(config: DataConfig, seed: int, needs_points: bool, needs_masks: bool = False) -> Sources:
    """Open all data sets of a recipe and divide them."""
    pseudo = [name.removeprefix(PSEUDO) for name in config.train if name.startswith(PSEUDO)]
    _check_pseudo(pseudo, needs_points)
    listed_in = [name.removeprefix(PSEUDO) for name in config.train]
    datasets = {name: _open(name, config) for name in dict.fromkeys((*listed_in, *config.validate))}
    exclude = [_open(name, config) for name in config.exclude if _matters(name, datasets)]
    foreign = [_open(name, config) for name in config.exclude_images]
    names = ImageNames((*datasets.values(), *exclude, *foreign))
    excluded = names.of_all(exclude)
    barred = frozenset().union(*names.of_all(foreign))
    train: dict[str, Subset] = {}
    held_out: list[Subset] = []
    left_out = 0
    for name in dict.fromkeys(listed_in):
        listed = _distinct(datasets[name], names, excluded)
        listed = listed.take(k for k, e in enumerate(listed.entries) if not names.of(e) & barred)
        if not len(listed):
            raise InputError(f"data.train: data.exclude and data.exclude_images leave no pair of {name}")
        useful = listed.with_points() if needs_points else listed
        if needs_masks:
            useful = useful.with_objects()
            if not len(useful):
                raise InputError(f"data.train: {name} has no masks, boxes or keypoints to tell objects by")
        if not len(useful):
            raise InputError(
                f"data.train: {name} has no keypoints, which the strong objective needs; "
                "train on another split, or set loss.objective=weak"
            )
        left_out += len(listed) - len(useful)
        # What is only paired anew is not divided by its list; its images can be.
        apart = holdout_of(useful, names, config, seed, divided=name in config.train)
        train[name] = useful.take(k for k in range(len(useful)) if k not in apart)
        judged = useful.take(sorted(apart)).with_points()
        if apart and not len(judged):
            raise InputError(
                f"data.holdout: {name} has no keypoints to validate on; "
                "set data.holdout=0 and name a split that has them in data.validate"
            )
        held_out.append(judged)
    unseen = frozenset().union(*names.of_all(held_out))
    for name, part in train.items():
        train[name] = part.take(k for k, e in enumerate(part.entries) if not names.of(e) & unseen)
        if not len(train[name]):
            raise InputError(
                f"data.train: nothing of {name} is left to train on, as images connect all its pairs; lower "
                "data.holdout or data.holdout_images, or set both to 0 and name data.validate"
            )
    for name in config.validate:
        judged = _distinct(datasets[name], names, excluded).with_points()
        if not len(judged):
            raise InputError(f"data.validate: {name} has no pair with keypoints that is not in data.exclude")
        held_out.append(judged)
    held_out = [
        part.take(spaced(range(len(part)), config.validation_pairs)) for part in held_out if len(part)
    ]
    if not held_out:
        raise InputError("no pair to validate on: raise data.holdout, or name a data set in data.validate")
    _tell_apart(held_out)
    excluded |= names.of_all(held_out)
    parts: list[PairDataset] = [train[name] for name in train if name in config.train]
    parts += [_pseudo_pairs(name, train[name], config.pseudo_distance, excluded) for name in pseudo]
    return Sources(tuple(parts), tuple(held_out), left_out)


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
        if name.startswith((COCO, f"{CocoKeypoints.name}/")):
            raise InputError(
                f"data.train: {PSEUDO}{name}; keypoints of a COCO file have names, by which all its objects "
                f"are paired already: write {name}"
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
        given = Path(name.removeprefix(SYNTHETIC)).expanduser()
        return SyntheticPairs(given if given.is_dir() else data_root(config) / given)
    if name.startswith(COCO):
        return _open_coco(name, config)
    dataset, slash, split = name.partition("/")
    if not slash:
        raise InputError(
            f"data: '{name}'; wanted data set/split, such as pf-pascal/val or {PSEUDO}pf-pascal/val, "
            f"or {SYNTHETIC}PATH, or {COCO}PATH/annotations.json"
        )
    root = data_root(config) / find_dataset(dataset).folder
    if not root.is_dir():
        raise InputError(
            f"no folder {root} for {name}; give the folder that holds it: --set data.root=FOLDER"
        )
    return open_dataset(dataset, root, split)


def _open_coco(name: str, config: DataConfig) -> PairDataset:
    """An annotation file, or FOLDER/SPLIT, from the working folder or from that of the data sets."""
    given = Path(name.removeprefix(COCO)).expanduser()
    for path in (given, data_root(config) / given):
        if path.is_file():
            return CocoKeypoints(path)
        if path.suffix != ".json" and path.parent.is_dir():
            return CocoKeypoints(path.parent, path.name)
    raise InputError(
        f"{name}: no such file, neither here nor in {data_root(config)}; wanted {COCO}PATH/annotations.json, "
        f"or {COCO}FOLDER/SPLIT"
    )


def _matters(name: str, used: Iterable[str]) -> bool:
    """Does an excluded split have to be read? Those of a data set that is not used may be missing."""
    return name.startswith(COCO) or name.partition("/")[0] in {one.partition("/")[0] for one in used}


def _distinct(dataset: PairDataset, names: ImageNames, excluded: Collection[frozenset[str]]) -> Subset:
    """Each pair once: mirrored and reversed copies are made by augmentation."""
    several = dataset.name == CocoKeypoints.name  # objects in an image, which make pairs of their own
    first: dict[object, int] = {}
    for index, entry in enumerate(dataset.entries):
        ends = names.of(entry)
        if ends not in excluded:
            first.setdefault(entry.id if several else ends, index)
    return Subset(dataset, first.values())


def _tell_apart(parts: Sequence[PairDataset]) -> None:
    """Give splits of one name, of several COCO files, names of their own: each has its own figure."""
    for part, name in zip(parts, unique(f"{part.name}/{part.split}" for part in parts), strict=True):
        part.split = name.removeprefix(f"{part.name}/")
