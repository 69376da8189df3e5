"""COCO's format for keypoints, in JSON: boxes, polygons or masks, keypoints with visibility, skeletons.

Boxes and polygons count from the image's corner, keypoints from the first pixel's centre.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from ...data.annotations import Record, box_of_corner, numbers, read_object, records
from ...errors import InputError
from ..annotations import AnnotatedImage, Annotations, Category, Floats, LabelledObject
from ..outlines import decode_runs, outlines
from .records import at, note_lines

LACKS = ()  # it holds everything


def to_coco(annotations: Annotations) -> dict[str, Any]:
    """The content of the file, as plain data."""
    ids = {category: number for number, category in enumerate(annotations.categories, start=1)}
    images: list[dict[str, Any]] = []
    objects: list[dict[str, Any]] = []
    for number, image in enumerate(annotations, start=1):
        sides = {} if image.size is None else {"width": image.size[0], "height": image.size[1]}
        images.append({"id": number, "file_name": image.file_name, **sides})
        for one in image.objects:
            described = {"id": len(objects) + 1, "image_id": number, "category_id": ids[one.category]}
            objects.append(described | _object(one))
    return {"images": images, "annotations": objects, "categories": [_category(c, ids[c]) for c in ids]}


def write(annotations: Annotations) -> str:
    """The file."""
    return json.dumps(to_coco(annotations), allow_nan=False, ensure_ascii=False) + "\n"


def read(path: Path) -> Annotations:
    """A file of one's own or of a tool."""
    content = read_object(path)
    notes = Counter[str]()
    categories = {}
    for place, record in records(content.get("categories"), f"{path}, categories"):
        with at(place):
            categories[_key(record, "id", place)] = _read_category(record)
    images = {}
    objects: dict[Any, list[LabelledObject]] = {}
    for place, record in records(content.get("images"), f"{path}, images"):
        with at(place):
            key = _key(record, "id", place)
            if key in images:
                raise InputError(f"two images have the id {key}")
            images[key] = _read_image(record)
            objects[key] = []
    for place, record in records(content.get("annotations"), f"{path}, annotations"):
        with at(place):
            image, category = (_key(record, key, place) for key in ("image_id", "category_id"))
            if image not in images or category not in categories:
                raise InputError("its image_id or category_id is that of no image or category")
            if record.get("iscrowd"):
                notes["crowds, which are no single objects, are left out"] += 1
            else:
                objects[image].append(_read_object(record, categories[category], place, notes))
    done = (AnnotatedImage(one.file_name, one.size, tuple(objects[key])) for key, one in images.items())
    with at(str(path)):
        return Annotations(tuple(categories.values()), tuple(done), note_lines(notes))


def _category(category: Category, number: int) -> dict[str, Any]:
    described = {"id": number, "name": category.name, "supercategory": ""}
    bones = [[a + 1, b + 1] for a, b in category.skeleton]  # COCO counts keypoints from 1
    return described | {"keypoints": list(category.keypoints), "skeleton": bones}


def _object(one: LabelledObject) -> dict[str, Any]:
    described: dict[str, Any] = {"iscrowd": 0}
    bounds = one.bounds()
    if bounds is not None:
        (x, y), (x2, y2) = (bounds + 0.5).reshape(2, 2)
        described |= {"bbox": rounded([x, y, x2 - x, y2 - y]), "area": round(float((x2 - x) * (y2 - y)), 2)}
    if one.polygons:
        described["segmentation"] = [rounded((polygon + 0.5).reshape(-1)) for polygon in one.polygons]
        described["area"] = round(sum(_area(polygon) for polygon in one.polygons), 2)
    if one.category.keypoints:
        shown = np.where(one.shown[:, None], one.keypoints, 0)
        flat = [value for x, y, v in shown.tolist() for value in (round(x, 2), round(y, 2), int(v))]
        described |= {"keypoints": flat, "num_keypoints": int(one.shown.sum())}
    if one.scores is not None:
        described |= {"scores": rounded(one.scores, 4), "score": round(one.confidence, 4)}
    return described


def rounded(values: Any, digits: int = 2) -> list[float]:
    """Plain numbers, short."""
    return [round(float(value), digits) for value in values]


def _area(polygon: Floats) -> float:
    x, y = polygon.T
    return abs(float(x @ np.roll(y, -1) - y @ np.roll(x, -1))) / 2


def _read_category(record: Record) -> Category:
    names, bones = record.get("keypoints") or [], record.get("skeleton") or []
    pairs = isinstance(bones, list) and all(
        isinstance(bone, list) and len(bone) == 2 and all(type(end) is int for end in bone) for bone in bones
    )
    if not isinstance(names, list) or not pairs:
        raise InputError("keypoints is not a list of names, or skeleton not a list of pairs")
    return Category(record.get("name", ""), tuple(names), tuple((a - 1, b - 1) for a, b in bones))


def _read_image(record: Record) -> AnnotatedImage:
    name, width, height = (record.get(key) for key in ("file_name", "width", "height"))
    if not isinstance(name, str):
        raise InputError("file_name is missing, or not a text")
    known = type(width) is int and type(height) is int
    return AnnotatedImage(name, (width, height) if known else None)  # type: ignore[arg-type]


def _read_object(record: Record, category: Category, place: str, notes: Counter[str]) -> LabelledObject:
    values = record.get("keypoints") or [0] * 3 * len(category.keypoints)
    keypoints = numbers(values, place, "keypoints")
    if keypoints.size != 3 * len(category.keypoints):
        wanted = 3 * len(category.keypoints)
        raise InputError(f"keypoints holds {keypoints.size} numbers, but {wanted} are wanted")
    scores = None if record.get("scores") is None else numbers(record["scores"], place, "scores")
    box = box_of_corner(record.get("bbox"), place)
    polygons = _read_segmentation(record.get("segmentation") or [], place, notes)
    return LabelledObject(category, keypoints.reshape(-1, 3), box, polygons, scores)


def _read_segmentation(values: object, place: str, notes: Counter[str]) -> tuple[Floats, ...]:
    if isinstance(values, dict):
        polygons, holes = outlines(decode_runs(values.get("counts"), values.get("size")))
        notes["holes of masks are filled"] += holes
        return polygons
    if not isinstance(values, list):
        raise InputError("segmentation is neither a list of polygons nor a mask")
    flat = [numbers(polygon, place, "segmentation") for polygon in values]
    if any(one.size % 2 for one in flat):
        raise InputError("a polygon holds an odd number of coordinates")
    return tuple(one.reshape(-1, 2) - 0.5 for one in flat)


def _key(record: Record, key: str, place: str) -> int | str:
    value = record.get(key)
    if type(value) not in (int, str):
        raise InputError(f"{key} is missing, or neither a whole number nor a text")
    return value  # type: ignore[return-value]
