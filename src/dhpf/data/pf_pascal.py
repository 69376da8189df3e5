"""PF-PASCAL: pairs of PASCAL VOC images of 20 classes.

Two layouts are read, mixed or not:

- the official one, ``Annotations/<class>/<image>.mat`` with ``kps`` (one row for each keypoint of the class,
  NaN where it is not visible) and ``bbox``;
- keypoints (``XA,YA,XB,YB``) and boxes (``bboxA,bboxB``) as columns of the pair lists.

Without either, as in training lists for weak supervision, pairs have no points.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..errors import InputError
from .annotations import Row, as_box, as_points, read_matrix, read_rows
from .pairs import Annotation, ClassMap, Entry, Floats, Labels, PairDataset, unique

# In the order of their numbers, from 1: in the pair lists as in PASCAL VOC's class maps.
CLASSES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable"),
    *("dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"),
)

LISTS = {
    "trn": ("trn_pairs.csv", "train_pairs.csv"),
    "val": ("val_pairs.csv",),
    "test": ("test_pairs.csv",),
}


class PFPascal(PairDataset):
    """PF-PASCAL.

    Parameters
    ----------
    root
        The folder that holds ``JPEGImages`` and the pair lists.
    split
        ``trn``, ``val`` or ``test``.
    """

    name = "pf-pascal"

    def __init__(self, root: str | Path, split: str = "test") -> None:
        self.root, self.split = Path(root), split
        if split not in LISTS:
            raise InputError(f"pf-pascal has no split {split!r}; its splits are {', '.join(LISTS)}")
        candidates = [self.root / name for name in LISTS[split]]
        self._rows = read_rows(next((path for path in candidates if path.exists()), candidates[0]))
        for column in ("source_image", "target_image", "class"):
            if column not in self._rows[0].values:
                raise InputError(f"{self._rows[0].file}: the pair list has no column {column!r}")
        entries = [self._entry(row) for row in self._rows]
        ids = unique(entry.id for entry in entries)
        self.entries = tuple(entry._replace(id=name) for entry, name in zip(entries, ids, strict=True))

    def files(self) -> Iterator[Path]:
        """The list, the images, their matrices and class maps."""
        yield self._rows[0].file
        for entry in self.entries:
            for image in (entry.source, entry.target):
                yield from (image, self._matrix_file(entry, image), self._class_map_file(image))

    def annotation(self, index: int) -> Annotation:
        """Read the points that both images show, the boxes, and which class maps there are."""
        row, entry = self._rows[index], self.entries[index]
        if "XA" in row.values:
            points_a, points_b = row.points("XA", "YA"), row.points("XB", "YB")
        elif self._has_annotations():
            points_a, points_b = self._common_points(entry)
        else:
            points_a = points_b = np.zeros((0, 2))
        return Annotation(
            Labels(points_a, self._box(index, "A"), None, self._class_map(entry.source, entry.category)),
            Labels(points_b, self._box(index, "B"), None, self._class_map(entry.target, entry.category)),
        ).checked(row.place)

    def _entry(self, row: Row) -> Entry:
        number = row.integer("class")
        if not 1 <= number <= len(CLASSES):
            raise InputError(f"{row.place}: class is {number}, but 1 to {len(CLASSES)} is wanted")
        folder = self.root / "JPEGImages"
        source, target = folder / row.path("source_image", 1), folder / row.path("target_image", 1)
        mirrored = "flip" in row.values and row.integer("flip") == 1
        name = f"{source.stem}-{target.stem}" + ("-mirrored" if mirrored else "")
        return Entry(name, CLASSES[number - 1], source, target, mirrored)

    def _has_annotations(self) -> bool:
        return (self.root / "Annotations").is_dir()

    def _matrix_file(self, entry: Entry, image: Path) -> Path:
        return self.root / "Annotations" / entry.category / f"{image.stem}.mat"

    def _common_points(self, entry: Entry) -> tuple[Floats, Floats]:
        files = [self._matrix_file(entry, image) for image in (entry.source, entry.target)]
        a, b = (as_points(read_matrix(file, "kps"), file, "kps") for file in files)
        if len(a) != len(b):
            raise InputError(f"{files[1]}: {len(b)} rows in kps, but {len(a)} in {files[0]}")
        visible = np.isfinite(a).all(axis=1) & np.isfinite(b).all(axis=1)
        return a[visible], b[visible]

    def _box(self, index: int, letter: str) -> Floats | None:
        row, entry = self._rows[index], self.entries[index]
        if f"bbox{letter}" in row.values:
            return row.box(f"bbox{letter}")
        if not self._has_annotations():
            return None
        file = self._matrix_file(entry, entry.source if letter == "A" else entry.target)
        return as_box(read_matrix(file, "bbox"), file, "bbox")

    def _class_map_file(self, image: Path) -> Path:
        return self.root / "SegmentationClass" / f"{image.stem}.png"

    def _class_map(self, image: Path, category: str) -> ClassMap | None:
        path = self._class_map_file(image)
        return ClassMap(path, CLASSES.index(category) + 1) if path.exists() else None
