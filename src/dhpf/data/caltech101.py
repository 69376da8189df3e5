"""Caltech-101: pairs of images of 101 categories with the outline of the object in each.

There are no keypoints: methods are compared by how well they carry the source's mask to the target.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..errors import InputError
from .annotations import read_rows
from .pairs import Annotation, Labels, PairDataset, entries_by_folder

LIST = "test_pairs_caltech_with_category.csv"
COLUMNS = ("source_image", "target_image", "class", "XA", "YA", "XB", "YB")


class Caltech101(PairDataset):
    """Caltech-101; all of it is the test split.

    Parameters
    ----------
    root
        The folder that holds ``101_ObjectCategories`` and the pair list.
    """

    name = "caltech-101"

    def __init__(self, root: str | Path, split: str = "test") -> None:
        self.root, self.split = Path(root), split
        if split != "test":
            raise InputError(f"caltech-101 has no split {split!r}; its only split is test")
        self._rows = read_rows(self.root / LIST, COLUMNS)
        # <category>/<image>: the folder is the category, whose number the list gives as well.
        folder = self.root / "101_ObjectCategories"
        self.entries = entries_by_folder(
            (folder / row.path("source_image", 2), folder / row.path("target_image", 2)) for row in self._rows
        )

    def files(self) -> Iterator[Path]:
        """The list and the images."""
        yield self.root / LIST
        yield from super().files()

    def annotation(self, index: int) -> Annotation:
        """Read the outlines; there are no points."""
        none = np.zeros((0, 2))
        row = self._rows[index]
        source, target = (row.points(f"X{image}", f"Y{image}") for image in "AB")
        return Annotation(Labels(none, polygon=source), Labels(none, polygon=target)).checked(row.place)
