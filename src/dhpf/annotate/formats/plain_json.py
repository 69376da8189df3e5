"""Plain JSON: image -> its objects, each with category, box, polygons and its keypoints by name.

    {"cat.jpg": [{"category": "cat", "box": [x1, y1, x2, y2],
                  "keypoints": {"nose": {"x": 76, "y": 136, "visibility": 2, "score": 0.9}}}]}

A keypoint may also be just [x, y].
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ...data.annotations import Record, as_box, as_points, numbers, read_object, records
from ...errors import InputError
from ..annotations import ABSENT, VISIBLE, Annotations
from .coco import rounded
from .records import Draft, Point, at

LACKS = ("skeletons",)


def write(annotations: Annotations) -> str:
    """The file."""
    content = {image.file_name: [_object(one) for one in image.objects] for image in annotations}
    return json.dumps(content, allow_nan=False, ensure_ascii=False, indent=1) + "\n"


def read(path: Path) -> Annotations:
    """A file of this form."""
    draft = Draft()
    for image, objects in read_object(path).items():
        found = draft.image(image)
        for place, record in records(objects, f"{path}, {image[:40]!r}"):
            with at(place):
                found.append(_read_object(record, place, draft))
    if not draft.images:
        raise InputError(f"{path} holds no images; wanted an object for each, with its keypoints by name")
    with at(str(path)):
        return draft.annotations()


def _object(one: Any) -> dict[str, Any]:
    described: dict[str, Any] = {"category": one.category.name}
    if one.box is not None:
        described["box"] = rounded(one.box)
    if one.polygons:
        described["polygons"] = [[rounded(corner) for corner in polygon] for polygon in one.polygons]
    keypoints = {}
    for index, name in enumerate(one.category.keypoints):
        x, y, visibility = one.keypoints[index].tolist()
        keypoints[name] = {"x": round(x, 2), "y": round(y, 2), "visibility": int(visibility)}
        if one.scores is not None:
            keypoints[name]["score"] = round(float(one.scores[index]), 4)
    return described | {"keypoints": keypoints}


def _read_object(record: Record, place: str, draft: Draft) -> dict[str, Any]:
    category, marked = record.get("category", "object"), record.get("keypoints", {})
    if not isinstance(category, str) or not isinstance(marked, dict):
        raise InputError("category is not a text, or keypoints is not an object of names")
    points: dict[str, Point] = {}
    scores: dict[str, float] = {}
    for name, value in marked.items():
        if isinstance(value, dict):
            x, y, visibility = numbers(
                [value.get("x"), value.get("y"), value.get("visibility", VISIBLE)], place, name
            )
            if "score" in value:
                scores[name] = float(numbers(value["score"], place, "score")[0])
        else:
            x, y, visibility = *_two(value, place, name), float(VISIBLE)
        points[name] = (x, y, visibility) if visibility != ABSENT else (0, 0, ABSENT)
    box = None if record.get("box") is None else as_box(record["box"], place, "box")
    outlines = record.get("polygons") or []
    if not isinstance(outlines, list):
        raise InputError("polygons is not a list")
    polygons = tuple(as_points(polygon, place, "polygons") for polygon in outlines)
    return draft.object(category, points, scores or None, box=box, polygons=polygons)


def _two(value: object, place: str, name: str) -> tuple[float, float]:
    point = numbers(value, place, name[:40])
    if point.shape != (2,):
        raise InputError(f"{name[:40]!r} is not [x, y]")
    return float(point[0]), float(point[1])
