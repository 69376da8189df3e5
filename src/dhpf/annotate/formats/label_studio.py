"""Label Studio's JSON: tasks with regions in percent of the image; keypoints belong to a box by ``parentID``.

What a person marked is an annotation; what has scores is a prediction, which Label Studio shows to correct.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np

from ...data.annotations import Record, numbers, records
from ...errors import InputError
from ...files import read_json
from ..annotations import VISIBLE, AnnotatedImage, Annotations, Floats, LabelledObject
from .records import MOST_BYTES, Draft, Point, at

LACKS = ("hidden", "absent scores", "origin", "skeletons")
DOT = 0.5  # width of a keypoint on the screen, in percent


def write(annotations: Annotations) -> str:
    """Tasks for Label Studio's import."""
    tasks = [_task(number, image) for number, image in enumerate(annotations, start=1)]
    return json.dumps(tasks, allow_nan=False, ensure_ascii=False) + "\n"


def read(path: Path) -> Annotations:
    """An export (JSON, not JSON-MIN), or tasks for import."""
    draft = Draft()
    for place, task in records(read_json(path, "Label Studio file", MOST_BYTES), f"{path}, task "):
        with at(place):
            regions = _regions(task, draft.notes)
            sizes = {(r.get("original_width"), r.get("original_height")) for _, r in regions}
            size = next(iter(sizes)) if len(sizes) == 1 else None
            known = size is not None and all(type(side) is int and side > 0 for side in size)
            found = draft.image(_image_name(task), size if known else None)  # type: ignore[arg-type]
            if regions and not known:
                raise InputError("its regions have no original_width and original_height, or several")
            if size is not None and known:
                found += _read_objects(dict(regions), np.array(size, np.float64), draft)
    if not draft.images:
        raise InputError(f"{path} holds no tasks; wanted Label Studio's export as JSON")
    with at(str(path)):
        return draft.annotations()


def _task(number: int, image: AnnotatedImage) -> dict[str, Any]:
    if image.size is None and image.objects:
        raise InputError(f"{image.file_name}: its size is not known, which label-studio needs")
    width, height = image.size or (0, 0)
    regions = [
        {"original_width": width, "original_height": height, "to_name": "image", **region}
        for index, one in enumerate(image.objects, start=1)
        for region in _write_object(one, f"{number}-{index}", np.array([width, height], np.float64))
    ]
    task: dict[str, Any] = {"id": number, "data": {"image": image.file_name}}
    if any(one.scores is not None for one in image.objects):
        score = round(image.confidence, 4)
        return task | {"predictions": [{"model_version": "dhpf", "score": score, "result": regions}]}
    return task | {"annotations": [{"result": regions}]}


def _write_object(one: LabelledObject, name: str, size: Floats) -> list[dict[str, Any]]:
    """Its regions: a box, which keypoints and polygons belong to."""
    bounds = one.bounds()
    corners = (np.zeros(4) if bounds is None else bounds).reshape(2, 2)
    (x, y), (x2, y2) = _percent(corners, size)
    box = {"x": x, "y": y, "width": round(x2 - x, 4), "height": round(y2 - y, 4), "rotation": 0}
    regions = [_region(f"{name}-box", "rectanglelabels", one.category.name, box)]
    for index, polygon in enumerate(one.polygons):
        value = {"points": _percent(polygon, size), "closed": True}
        regions.append(_region(f"{name}-polygon-{index}", "polygonlabels", one.category.name, value))
    for index, keypoint in enumerate(one.category.keypoints):
        if one.shown[index]:
            [[x, y]] = _percent(one.keypoints[index : index + 1, :2], size)
            region = _region(f"{name}-{index}", "keypointlabels", keypoint, {"x": x, "y": y, "width": DOT})
            regions.append(
                region | ({} if one.scores is None else {"score": round(float(one.scores[index]), 4)})
            )
    return [regions[0], *({**region, "parentID": f"{name}-box"} for region in regions[1:])]


def _region(name: str, kind: str, label: str, value: dict[str, Any]) -> dict[str, Any]:
    return {"id": name, "type": kind, "from_name": kind, "value": value | {kind: [label]}}


def _percent(points: Floats, size: Floats) -> list[list[float]]:
    return [[round(v, 4) for v in row] for row in ((points + 0.5) / size * 100).tolist()]


def _regions(task: Record, notes: Counter[str]) -> list[tuple[str, Record]]:
    """Of the first annotation that was not cancelled, else of the first prediction."""
    made = [one for _, one in records(task.get("annotations") or [], "annotations")]
    kept = [one for one in made if not one.get("was_cancelled")]
    notes["annotations of Label Studio beside a task's first are left out"] += max(0, len(kept) - 1)
    guessed = [one for _, one in records(task.get("predictions") or [], "predictions")]
    chosen = (kept or guessed or [{}])[0]
    regions = [region for _, region in records(chosen.get("result") or [], "result")]
    return [(str(region.get("id", number)), region) for number, region in enumerate(regions)]


def _image_name(task: Record) -> str:
    """The file of an upload (/data/upload/1/0123abcd-cat.jpg), local file (?d=cats/cat.jpg) or path."""
    data = task.get("data")
    values = [value for value in data.values() if isinstance(value, str)] if isinstance(data, dict) else []
    image = data.get("image", values[0] if values else None) if isinstance(data, dict) else None
    if not isinstance(image, str):
        raise InputError("data holds no image")
    address = urlsplit(image)
    local = parse_qs(address.query).get("d")
    if local:
        return unquote(local[0])
    if address.scheme or address.path.startswith("/"):
        return unquote(address.path).rpartition("/")[2]
    return image


def _read_objects(regions: Mapping[str, Record], size: Floats, draft: Draft) -> list[dict[str, Any]]:
    """A box or polygon without a parent begins an object; keypoints without one share an object."""
    members: dict[str, list[Record]] = {}
    for name, region in regions.items():
        parent = region.get("parentID")
        alone = "" if region.get("type") == "keypointlabels" else name
        members.setdefault(parent if isinstance(parent, str) and parent in regions else alone, []).append(
            region
        )
    return [draft_ for of in members.values() if (draft_ := _read_object(of, size, draft)) is not None]


def _read_object(regions: list[Record], size: Floats, draft: Draft) -> dict[str, Any] | None:
    category, box, polygons = "object", None, []
    points: dict[str, Point] = {}
    scores: dict[str, float] = {}
    used = False
    for region in regions:
        kind, value = region.get("type"), region.get("value")
        labels = value.get(kind) if isinstance(value, dict) and isinstance(kind, str) else None
        label = labels[0] if isinstance(labels, list) and labels and isinstance(labels[0], str) else "object"
        if not isinstance(value, dict) or kind not in ("rectanglelabels", "polygonlabels", "keypointlabels"):
            draft.notes[f"regions of type {str(kind)[:30]!r} of Label Studio are left out"] += 1
            continue
        used = True
        if kind == "keypointlabels":
            if label in points:
                raise InputError(
                    f"{label[:40]!r} occurs twice in an object; put each object's points in its box"
                )
            x, y = _pixels([[value.get("x"), value.get("y")]], size)[0].tolist()
            points[label] = x, y, VISIBLE
            if isinstance(region.get("score"), (int, float)):
                scores[label] = float(region["score"])
            continue
        category = label
        if kind == "polygonlabels":
            polygons.append(_pixels(value.get("points"), size))
        elif value.get("rotation"):
            draft.notes["rotated boxes of Label Studio are left out"] += 1
        else:
            sides = numbers([value.get(key) for key in ("x", "y", "width", "height")], "value", "box")
            corners = np.array([sides[:2], sides[:2] + sides[2:]])
            box = _pixels(corners.tolist(), size).reshape(-1) if (sides[2:] > 0).all() else None
    return draft.object(category, points, scores or None, box=box, polygons=tuple(polygons)) if used else None


def _pixels(points: object, size: Floats) -> Floats:
    flat = numbers(points, "value", "points")
    if flat.size % 2:
        raise InputError("a region's points are not pairs of x and y")
    return flat.reshape(-1, 2) / 100 * size - 0.5
