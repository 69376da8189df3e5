"""PF-WILLOW: 10 sub-classes of 10 images, ten keypoints on each.

The pair list has the keypoints in columns (``XA1..XA10, YA1..YA10, XB1..XB10, YB1..YB10``). Without a list,
the pairs are all ordered pairs of each sub-class, which is what the list holds, and the keypoints come from
``<sub-class>/<image>.mat`` (``pts_coord``).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import numpy as np

from ..errors import InputError
from .annotations import Row, as_points, read_matrix, read_rows
from .pairs import Annotation, Floats, Labels, PairDataset, entries_by_folder

LISTS = ("test_pairs.csv", "test_pairs_pf.csv")
POINTS = 10
COLUMNS = (
    "imageA",
    "imageB",
    *(f"{axis}{image}{number}" for image in "AB" for axis in "XY" for number in range(1, POINTS + 1)),
)


class PFWillow(PairDataset):
    """PF-WILLOW; all of it is the test split.

    Parameters
    ----------
    root
        The folder that holds the sub-classes, such as ``car(G)``.
    """

    name = "pf-willow"

    def __init__(self, root: str | Path, split: str = "test") -> None:
        self.root, self.split = Path(root), split
        if split != "test":
            raise InputError(f"pf-willow has no split {split!r}; its only split is test")
        lists = [self.root / name for name in LISTS if (self.root / name).exists()]
        self._rows: list[Row] | None = None
        if lists:
            self._rows = read_rows(lists[0], COLUMNS)
            self.entries = entries_by_folder(
                (self.root / row.path("imageA", 2), self.root / row.path("imageB", 2)) for row in self._rows
            )
        else:
            self.entries = entries_by_folder(self._all_pairs())

    def files(self) -> Iterator[Path]:
        """The list, the images and their points."""
        yield from (self.root / name for name in LISTS)
        for image in super().files():
            yield from (image, image.with_suffix(".mat"))

    def annotation(self, index: int) -> Annotation:
        """Read the ten points of both images."""
        if self._rows is not None:
            row = self._rows[index]
            return Annotation(Labels(_row_points(row, "A")), Labels(_row_points(row, "B"))).checked(row.place)
        source, target = (image.with_suffix(".mat") for image in self.entries[index][2:4])
        return Annotation(Labels(_file_points(source)), Labels(_file_points(target))).checked(target)

    def _all_pairs(self) -> list[tuple[Path, Path]]:
        files = [file for file in sorted(self.root.glob("*/*.mat")) if not file.name.startswith(".")]
        if not files:
            raise InputError(
                f"{self.root / LISTS[0]}: the pair list is missing, and there is no sub-class with .mat files"
            )
        classes = dict.fromkeys(file.parent for file in files)
        return [
            (a.with_suffix(".png"), b.with_suffix(".png"))
            for folder in classes
            for a, b in permutations([file for file in files if file.parent == folder], 2)
        ]


def _row_points(row: Row, image: str) -> Floats:
    numbers = range(1, POINTS + 1)
    return np.array([[row.number(f"{axis}{image}{number}") for axis in "XY"] for number in numbers])


def _file_points(file: Path) -> Floats:
    return as_points(read_matrix(file, "pts_coord").T, file, "pts_coord, transposed,")
