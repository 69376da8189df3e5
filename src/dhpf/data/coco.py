"""COCO keypoints files, the format in which annotation tools export: a data set of one's own.

Two annotated objects of one category in different images make a pair, of the keypoints that both show. That
is far more pairs than anyone trains on, so each object is paired with a bounded number of others.

K keypoints of a category  n objects of a category
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..files import real_path
from .annotations import SHOWN, Record, box_of_corner, inner_path, numbers, read_object, records
from .pairs import Annotation, Entry, Floats, Labels, PairDataset, unique

PLAIN_NAMES = ("_annotations.coco.json", "annotations.json")  # of files that are told by their folders
WHOLE = "all"  # the split of a file that is called annotations.json
DRAWN = 128  # candidates among which an object finds its partners
MOST_KEYPOINTS = 1000  # of a category

Id = int | str


class CocoImage(NamedTuple):
    """One image."""

    name: str  # without its ending
    path: Path
    size: tuple[int, int] | None  # width and height, where the file states them


class Category(NamedTuple):
    """One kind of object."""

    name: str
    keypoints: tuple[str, ...]  # (K,)


class CocoObject(NamedTuple):
    """One annotated object."""

    label: str  # the image's name, and the object's number if it is not the first of its category there
    image: CocoImage
    category: Category
    keypoints: Floats  # (K, 3): x, y, visibility (0 not labelled, 1 hidden, 2 visible)
    box: Floats | None

    @property
    def shown(self) -> NDArray[np.bool_]:
        """(K,): the keypoints that are labelled."""
        return self.keypoints[:, 2] > 0


class CocoKeypoints(PairDataset):
    """Pairs of the objects of a COCO keypoints file.

    Parameters
    ----------
    root
        The folder that holds the annotation file and the images; or the annotation file itself.
    split
        Which of the annotation files that `find_splits` finds; ``all`` is ``annotations.json``. A file that
        is given itself is called by its name, or by its folder's if it is an ``annotations.json``.
    partners
        With how many others an object is paired at most; others may choose it as well.
    common
        How many keypoints both objects must show.
    seed
        Of the choice of partners.
    """

    name = "coco"

    def __init__(
        self, root: str | Path, split: str = WHOLE, partners: int = 10, common: int = 3, seed: int = 0
    ) -> None:
        self.root, self.split = Path(root), split
        if partners < 1 or common < 1:
            raise InputError(f"partners {partners}, common {common}: at least 1 is wanted of each")
        if self.root.is_file():
            self.file = self.root
            beside = self.file.parent.name == "annotations"  # the images lie beside that folder
            self.root = self.file.parent.parent if beside else self.file.parent
            plain = self.file.name in PLAIN_NAMES
            self.split = real_path(self.file).parent.name if plain else _own_name(self.file)
        else:
            splits = find_splits(self.root)
            if split not in splits:
                found = f"its splits are {', '.join(splits)}" if splits else "it holds no annotations.json"
                raise InputError(f"{self.root}: coco has no split {split[:SHOWN]!r} there; {found}")
            self.file = splits[split]
        self._objects = sorted(_read(self.file, self.root, self.split), key=lambda o: (o.category, o.label))
        self.sizes = {o.image.path: o.image.size for o in self._objects if o.image.size is not None}
        self._pairs = tuple(_pair(self._objects, partners, common, seed))
        if not self._pairs:
            raise InputError(
                f"{self.file}: no two objects of a category in different images "
                f"show {common} or more keypoints in common"
            )
        pairs = [(self._objects[a], self._objects[b]) for a, b in self._pairs]
        ids = unique(f"{a.category.name}:{a.label}-{b.label}" for a, b in pairs)
        self.entries = tuple(
            Entry(name, a.category.name, a.image.path, b.image.path)
            for name, (a, b) in zip(ids, pairs, strict=True)
        )

    def files(self) -> Iterator[Path]:
        """The annotation file and the images."""
        yield self.file
        yield from super().files()

    def annotation(self, index: int) -> Annotation:
        """The keypoints that both objects show, with their names, and the objects' boxes."""
        a, b = (self._objects[position] for position in self._pairs[index])
        both = np.flatnonzero(a.shown & b.shown)
        source, target = (
            Labels(one.keypoints[:, :2], one.box, names=one.category.keypoints).take(both) for one in (a, b)
        )
        return Annotation(source, target).checked(f"{self.file}, {a.label} or {b.label}")


def find_splits(root: Path) -> dict[str, Path]:
    """The annotation files of a folder by their splits.

    ``annotations.json`` is the split ``all``. Others are called by their names, such as ``train.json`` or
    ``annotations/person_keypoints_train2017.json`` (``train2017``), or by their folders, such as
    ``train/_annotations.coco.json``.
    """
    found = {file.parent.name: file for name in PLAIN_NAMES for file in root.glob(f"*/{name}")}
    by_name = [*root.glob("*.json"), *root.glob("annotations/*.json")]
    # COCO itself has files of captions and instances beside those of keypoints.
    keypoints = [file for file in by_name if "keypoints_" in file.stem]
    found |= {_own_name(file): file for file in keypoints or by_name}
    whole = found.pop("annotations", None)
    return ({} if whole is None else {WHOLE: whole}) | dict(sorted(found.items()))


def _own_name(file: Path) -> str:
    return file.stem.rpartition("keypoints_")[2]


def _read(file: Path, root: Path, split: str) -> Iterator[CocoObject]:
    """The objects that have keypoints."""
    content = read_object(file)
    images = _read_images(content, file, root, split)
    categories = _read_categories(content, file)
    counts: dict[tuple[Category, Path], int] = {}
    for place, record in records(content.get("annotations"), f"{file}, annotations"):
        category = categories.get(_id(record, "category_id", place))
        values = record.get("keypoints")
        if category is None or not values or record.get("iscrowd"):
            continue
        image = images.get(_id(record, "image_id", place))
        if image is None:
            raise InputError(f"{place}: image_id is that of no image")
        keypoints = numbers(values, place, "keypoints")
        wanted = 3 * len(category.keypoints)
        if keypoints.size != wanted:
            raise InputError(f"{place}: keypoints holds {keypoints.size} numbers, but {wanted} are wanted")
        keypoints = keypoints.reshape(-1, 3)
        _check_keypoints(keypoints, image.size, place)
        number = counts[category, image.path] = counts.get((category, image.path), 0) + 1
        label = image.name if number == 1 else f"{image.name}#{number}"
        box = box_of_corner(record.get("bbox"), place)
        yield CocoObject(label, image, category, keypoints, box)


def _check_keypoints(keypoints: Floats, size: tuple[int, int] | None, place: str) -> None:
    """What no tool writes is a mistake: other kinds of visibility, points far from their image."""
    wrong = ~np.isin(keypoints[:, 2], (0, 1, 2))
    if wrong.any():
        raise InputError(f"{place}: a keypoint's visibility is {keypoints[wrong][0, 2]:g}; wanted 0, 1 or 2")
    shown = keypoints[keypoints[:, 2] > 0, :2]
    if size is not None:  # a point may lie a little outside, but not by a whole image
        outside = ~((shown >= -np.array(size)) & (shown <= 2 * np.array(size))).all(axis=1)
        if outside.any():
            x, y = shown[outside][0]
            raise InputError(
                f"{place}: a keypoint lies at ({x:g}, {y:g}), but its image has {size[0]} x {size[1]} pixels"
            )


def _read_images(content: Record, file: Path, root: Path, split: str) -> dict[Id, CocoImage]:
    names: dict[Id, Path] = {}
    sizes: dict[Id, tuple[int, int] | None] = {}
    for place, record in records(content.get("images"), f"{file}, images"):
        key, width, height = _id(record, "id", place), record.get("width"), record.get("height")
        _check_new(key, names, "image", place)
        names[key] = inner_path(_name(record, "file_name", place), f"{place}: file_name")
        sizes[key] = (width, height) if isinstance(width, int) and isinstance(height, int) else None
    folders = (file.parent, root, root / "images", root / "JPEGImages", root / split, root / "images" / split)
    some = list(names.values())[:100]  # all are in one folder, but a few may be missing
    folder = next((f for f in folders if any((f / name).exists() for name in some)), root)
    return {
        key: CocoImage(name.with_suffix("").as_posix(), folder / name, sizes[key])
        for key, name in names.items()
    }


def _read_categories(content: Record, file: Path) -> dict[Id, Category]:
    categories: dict[Id, Category] = {}
    for place, record in records(content.get("categories"), f"{file}, categories"):
        names = record.get("keypoints")
        if not names:
            continue  # of objects without keypoints
        if not isinstance(names, list) or len(names) > MOST_KEYPOINTS or not all(map(_is_name, names)):
            raise InputError(f"{place}: keypoints is not a list of names, at most {MOST_KEYPOINTS:,}")
        category = Category(_name(record, "name", place), tuple(names))
        [(most, times)] = Counter(names).most_common(1)
        if times > 1:
            raise InputError(
                f"{file}: the category {category.name[:SHOWN]!r} has {times} keypoints {most[:SHOWN]!r}; "
                "each needs a name of its own"
            )
        key = _id(record, "id", place)
        _check_new(key, categories, "category", place)
        categories[key] = category
    if not categories:
        raise InputError(f"{file}: no category has names of keypoints; wanted COCO's format for keypoints")
    return categories


def _id(record: Record, key: str, place: str) -> Id:
    value = record.get(key)
    if not isinstance(value, (int, str)):
        raise InputError(f"{place}: {key} is missing, or neither a whole number nor a text")
    return value


def _check_new(key: Id, known: Mapping[Id, object], what: str, place: str) -> None:
    if key in known:
        given = str(key)[:SHOWN]
        raise InputError(f"{place}: id {given} is that of another {what} before it; each needs its own")


def _name(record: Record, key: str, place: str) -> str:
    value = record.get(key)
    if not isinstance(value, str) or not _is_name(value):
        raise InputError(f"{place}: {key} is missing, or not a text of one line")
    return value


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value.isprintable() and value.strip() != ""


def _pair(objects: list[CocoObject], partners: int, common: int, seed: int) -> Iterator[tuple[int, int]]:
    """Positions of the two objects of each pair; a pair occurs once, in one direction."""
    of_category: dict[Category, list[int]] = {}
    for position, one in enumerate(objects):
        of_category.setdefault(one.category, []).append(position)
    for positions in of_category.values():
        shown = np.array([objects[position].shown for position in positions])  # (n, K)
        files: dict[Path, int] = {}
        image = np.array([files.setdefault(objects[p].image.path, len(files)) for p in positions])  # (n,)
        seen: set[frozenset[int]] = set()
        for own, position in enumerate(positions):
            drawn = _draw(objects[position].label, len(positions), seed)
            fits = (image[drawn] != image[own]) & ((shown[drawn] & shown[own]).sum(axis=1) >= common)
            for other in list(dict.fromkeys(drawn[fits].tolist()))[:partners]:
                if frozenset((own, other)) not in seen:
                    seen.add(frozenset((own, other)))
                    yield position, positions[other]


def _draw(label: str, count: int, seed: int) -> NDArray[np.int64]:
    """Numbers below ``count`` in an order of the object's own: all of them, or some where there are many.

    By a hash, which gives the same on every machine and with every version of NumPy.
    """
    lots = np.frombuffer(hashlib.shake_128(f"{seed}|{label}".encode()).digest(8 * min(count, DRAWN)), "<u8")
    return np.argsort(lots, kind="stable") if count <= DRAWN else (lots % np.uint64(count)).astype(np.int64)
