"""A few photos with annotations, for tests of the review."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from dhpf.annotate.annotations import AnnotatedImage, Annotations, Category, LabelledObject
from tests.conftest import texture

CAT = Category("cat", ("left eye", "right eye", "nose"), ((0, 2), (1, 2)))
SURE = {"a.png": 0.9, "b.png": 0.2, "c.png": 0.5}  # so that b, c, a is the order
SIZE = (60, 40)
POINTS = [[10, 12, 2], [30, 11, 2], [20, 30, 2]]


def one(score: float | None = None, keypoints: list[list[float]] | None = None) -> LabelledObject:
    """A cat, as found with that score; else as marked by a person."""
    scores = None if score is None else np.full(3, score)
    return LabelledObject(CAT, np.array(keypoints or POINTS, float), scores=scores)


def write_review(folder: Path) -> tuple[Path, Path]:
    """An annotation file and the folder of its photos."""
    photos = folder / "photos"
    photos.mkdir()
    for seed, name in enumerate(SURE):
        Image.fromarray(texture(*SIZE, seed)).save(photos / name)
    images = tuple(AnnotatedImage(name, SIZE, (one(score),)) for name, score in SURE.items())
    Annotations((CAT,), images).save(folder / "annotations.json")
    return folder / "annotations.json", photos
