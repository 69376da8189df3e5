"""SPair-71k: pairs of 18 classes with large changes of viewpoint and scale.

One JSON file for each pair; 53,340 of them in training, so they are read when a pair is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ..errors import InputError
from ..files import read_text
from .annotations import MOST_BYTES, SHOWN, as_box, as_points, read_object
from .pairs import Annotation, ClassMap, Entry, Labels, PairDataset
from .pf_pascal import CLASSES

SPLITS = ("trn", "val", "test")
LAYOUTS = ("large", "small")
FLAGS = ("viewpoint_variation", "scale_variation", "truncation", "occlusion")
LARGEST_FLAG = 2
PAIR = re.compile(r"\d+-(\w+)-(\w+):(\w+)")  # number, source, target, category
COLON_STAND_INS = (":", "_", "-")  # some file systems cannot store the colon of the official names


class SPair71k(PairDataset):
    """SPair-71k.

    Parameters
    ----------
    root
        The folder that holds ``Layout``, ``PairAnnotation`` and ``JPEGImages``.
    split
        ``trn``, ``val`` or ``test``.
    layout
        ``large`` (all pairs, the one that is quoted) or ``small``.
    """

    name = "spair-71k"

    def __init__(self, root: str | Path, split: str = "test", layout: str = "large") -> None:
        self.root, self.split = Path(root), split
        if split not in SPLITS:
            raise InputError(f"spair-71k has no split {split!r}; its splits are {', '.join(SPLITS)}")
        if layout not in LAYOUTS:
            raise InputError(f"spair-71k has no layout {layout!r}; its layouts are {' and '.join(LAYOUTS)}")
        self._list = self.root / "Layout" / layout / f"{split}.txt"
        names = read_text(self._list, "pair list", MOST_BYTES).split()
        if not names:
            raise InputError(f"{self._list}: the split is empty, the list holds no pair")
        self.entries = tuple(map(self._entry, names))

    def files(self) -> Iterator[Path]:
        """The list, and the images, annotations and class maps of its pairs."""
        yield self._list
        for entry in self.entries:
            yield self._annotation_file(entry.id)
            for image in (entry.source, entry.target):
                yield from (image, self._class_map_file(image, entry.category))

    def annotation(self, index: int) -> Annotation:
        """Read a pair's file: points, boxes, and the variation flags where it has them."""
        entry = self.entries[index]
        file = self._annotation_file(entry.id)
        content = read_object(file)
        labels = []
        for prefix, image in (("src", entry.source), ("trg", entry.target)):
            for key in (f"{prefix}_kps", f"{prefix}_bndbox"):
                if key not in content:
                    raise InputError(f"{file}: the annotation has no {key!r}")
            points = as_points(content[f"{prefix}_kps"], file, f"{prefix}_kps")
            box = as_box(content[f"{prefix}_bndbox"], file, f"{prefix}_bndbox")
            labels.append(Labels(points, box, None, self._class_map(image, entry.category)))
        flags = {flag: content[flag] for flag in FLAGS if flag in content}
        if not all(isinstance(value, int) and 0 <= value <= LARGEST_FLAG for value in flags.values()):
            raise InputError(f"{file}: a variation flag is not a whole number from 0 to {LARGEST_FLAG}")
        return Annotation(labels[0], labels[1], flags).checked(file)

    def _entry(self, name: str) -> Entry:
        match = PAIR.fullmatch(name)
        if match is None or match[3] not in CLASSES:
            raise InputError(f"{self._list}: {name[:SHOWN]!r} is not number-source-target:category")
        source, target, category = match.groups()
        folder = self.root / "JPEGImages" / category
        return Entry(name, category, folder / f"{source}.jpg", folder / f"{target}.jpg")

    def _annotation_file(self, name: str) -> Path:
        folder = self.root / "PairAnnotation" / self.split
        candidates = [folder / f"{name.replace(':', mark)}.json" for mark in COLON_STAND_INS]
        return next((path for path in candidates if path.exists()), candidates[0])

    def _class_map_file(self, image: Path, category: str) -> Path:
        return self.root / "Segmentation" / category / f"{image.stem}.png"

    def _class_map(self, image: Path, category: str) -> ClassMap | None:
        path = self._class_map_file(image, category)
        return ClassMap(path, CLASSES.index(category) + 1) if path.exists() else None
