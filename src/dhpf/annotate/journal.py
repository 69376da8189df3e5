"""Annotated photos as lines of a journal, from which a run or a review goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .annotations import AnnotatedImage, Category, LabelledObject


class FinishedPhoto(NamedTuple):
    """A photo that was labelled."""

    checksum: str  # of the photo's content
    image: AnnotatedImage

    def record(self) -> dict[str, Any]:
        """As a line of a journal has it."""
        about = {"name": self.image.file_name, "sha256": self.checksum, "size": self.image.size}
        return {**about, "objects": [object_record(one) for one in self.image.objects]}


def photo_of(record: Mapping[str, Any], categories: Mapping[str, Category]) -> FinishedPhoto:
    """The photo of such a line."""
    objects = tuple(object_of(one, categories) for one in record["objects"])
    image = AnnotatedImage(record["name"], tuple(record["size"]), objects)
    return FinishedPhoto(record["sha256"], image)


def object_record(one: LabelledObject) -> dict[str, Any]:
    """An object as a line of a journal has it."""
    return {
        "category": one.category.name,
        "keypoints": one.keypoints.round(3).tolist(),
        "box": None if one.box is None else one.box.round(3).tolist(),
        "polygons": [polygon.round(3).tolist() for polygon in one.polygons],
        "scores": None if one.scores is None else one.scores.round(5).tolist(),
    }


def object_of(record: Mapping[str, Any], categories: Mapping[str, Category]) -> LabelledObject:
    """The object of such a line."""
    keypoints = np.array(record["keypoints"], np.float64).reshape(-1, 3)
    polygons = tuple(np.array(polygon) for polygon in record["polygons"])
    category = categories[record["category"]]
    return LabelledObject(category, keypoints, record["box"], polygons, record["scores"])
