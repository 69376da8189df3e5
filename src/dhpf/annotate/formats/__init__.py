"""Annotation files: one module a format, each with ``read``, ``write`` and what the format lacks."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...errors import InputError, unknown
from ...files import read_text
from ..annotations import HIDDEN, Annotations
from .records import MOST_BYTES

FORMATS = {  # and their modules
    "coco": "coco",
    "cvat": "cvat",
    "label-studio": "label_studio",
    "deeplabcut": "deeplabcut",
    "json": "plain_json",
    "csv": "plain_csv",
}
WANTED = "wanted COCO, Label Studio or plain JSON, CVAT XML, DeepLabCut or plain CSV"


class Encoded(NamedTuple):
    """A file to be, and what its format cannot hold: a line a kind."""

    content: bytes
    lost: tuple[str, ...]


def check_format(name: str) -> str:
    """A known format, or an error."""
    if name not in FORMATS:
        raise unknown("format", name, FORMATS)
    return name


def encode(annotations: Annotations, format: str) -> Encoded:
    """The annotations in a format."""
    module = _module(check_format(format))
    lacks = module.LACKS
    lost = tuple(f"{format} does not hold {line}" for kind, line in _contents(annotations) if kind in lacks)
    return Encoded(module.write(annotations).encode(), lost)


def read_annotations(path: Path) -> Annotations:
    """Read a file of any of the formats."""
    annotations: Annotations = _module(detect_format(path)).read(path)
    return annotations


def detect_format(path: Path) -> str:
    """The format of a file, from its ending and how its content begins."""
    ending = path.suffix.lower()
    if ending == ".xml":
        return "cvat"
    if ending not in (".json", ".csv"):
        raise InputError(f"{path} is no annotation file by its ending; {WANTED}")
    text = read_text(path, "annotation file", MOST_BYTES)
    if ending == ".csv":
        return "deeplabcut" if text.startswith("scorer,") else "csv"
    return _kind_of_json(text, path)


def is_annotation_file(path: Path) -> bool:
    """Does it say which images it is about? Files with nothing but points do not."""
    ending = path.suffix.lower()
    if ending == ".xml":
        return True
    if ending not in (".json", ".csv"):
        return False
    text = read_text(path, "points file", MOST_BYTES)
    if ending == ".csv":
        first = next(csv.reader(text.splitlines()[:1]), [])
        return text.startswith("scorer,") or "image" in [cell.strip().lower() for cell in first]
    try:
        return _kind_of_json(text, path) != "json" or _names_images(json.loads(text))
    except InputError:
        return False  # whoever reads points says what is wrong


def _kind_of_json(text: str, path: Path) -> str:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(f"{path} is not valid JSON; {WANTED}") from None
    if isinstance(content, dict):
        return "coco" if {"images", "annotations", "categories"} & content.keys() else "json"
    first = content[0] if isinstance(content, list) and content else None
    if isinstance(first, dict) and "data" in first:
        return "label-studio"
    raise InputError(f"{path} holds no annotated images; {WANTED}")


def _names_images(content: Any) -> bool:
    """A plain file of images and their objects, not of points."""
    fields = {"category", "box", "polygons", "keypoints"}
    values = content.values() if isinstance(content, dict) else []
    objects = [one for value in values if isinstance(value, list) for one in value]
    return bool(objects) and all(isinstance(one, dict) and one.keys() <= fields for one in objects)


def _module(format: str) -> Any:
    return import_module(f".{FORMATS[format]}", __name__)


def _contents(annotations: Annotations) -> Iterator[tuple[str, str]]:
    """What the annotations hold that some format cannot, with how to say it."""
    objects = [one for image in annotations for one in image.objects]
    if any(category.skeleton for category in annotations.categories):
        yield "skeletons", "the lines of skeletons"
    if len(annotations.categories) > 1:
        yield "categories", "the names of several categories"
    if any(one.box is not None for one in objects):
        yield "boxes", "boxes"
    if any(one.polygons for one in objects):
        yield "polygons", "polygons"
    if any((one.keypoints[:, 2] == HIDDEN).any() for one in objects):
        yield "hidden", "which keypoints are hidden; they are written as visible"
    if any(one.scores is not None and len(one.scores) for one in objects):
        yield "scores", "scores"
    if any(one.scores is not None and np.any(one.scores[~one.shown]) for one in objects):
        yield "absent scores", "the scores of keypoints that are absent"
    if any(not image.objects for image in annotations):
        yield "empty", "images without objects"
    if any(not one.shown.any() for one in objects):
        yield "no keypoints", "objects without keypoints"
    if any(one.scores is None for one in objects) and any(one.scores is not None for one in objects):
        yield "origin", "which objects people marked; they are written as if predicted"
