"""Plain CSV, a row a keypoint: image, object, category, name, x, y, visibility, score."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...files import csv_text, read_text
from ..annotations import ABSENT, Annotations
from .records import MOST_BYTES, Draft, Point, at

LACKS = ("absent scores", "boxes", "empty", "no keypoints", "polygons", "skeletons")
COLUMNS = ("image", "object", "category", "name", "x", "y", "visibility", "score")


def write(annotations: Annotations) -> str:
    """The file; keypoints that are absent have no row."""
    rows: list[Iterable[object]] = [COLUMNS]
    for image in annotations:
        for number, one in enumerate(image.objects, start=1):
            for index, name in enumerate(one.category.keypoints):
                x, y, visibility = one.keypoints[index].tolist()
                if visibility != ABSENT:
                    score = "" if one.scores is None else round(float(one.scores[index]), 4)
                    place = image.file_name, number, one.category.name, name
                    rows.append((*place, round(x, 2), round(y, 2), int(visibility), score))
    return csv_text(rows)


def read(path: Path) -> Annotations:
    """A file that has at least the columns image, name, x and y."""
    lines = io.StringIO(read_text(path, "annotation file", MOST_BYTES), newline="")
    wanted = "wanted columns image, name, x, y and perhaps object, category, visibility, score"
    draft = Draft()
    objects: dict[tuple[str, str, str], tuple[dict[str, Point], dict[str, float]]] = {}
    try:
        reader = csv.DictReader(lines, skipinitialspace=True)
        if not {"image", "name", "x", "y"} <= set(reader.fieldnames or ()):
            raise InputError(f"{path}: {wanted}")
        for row in reader:
            with at(f"{path}, line {reader.line_num}"):
                key = row["image"] or "", row.get("object") or "1", row.get("category") or "object"
                objects.setdefault(key, ({}, {}))
                _add(row, *objects[key])
    except csv.Error as error:
        raise InputError(f"{path} cannot be read as CSV ({error}); {wanted}") from None
    if not objects:
        raise InputError(f"{path} holds no keypoints; {wanted}")
    for (image, _, category), (points, scores) in objects.items():
        draft.image(image).append(draft.object(category, points, scores or None))
    with at(str(path)):
        return draft.annotations()


def _add(row: Mapping[str, Any], points: dict[str, Point], scores: dict[str, float]) -> None:
    """One keypoint."""
    name = row["name"] or ""
    if name in points:
        raise InputError(f"{name[:40]!r} occurs twice in one object; number the objects in a column 'object'")
    try:
        points[name] = float(row["x"]), float(row["y"]), int(row.get("visibility") or 2)
        if row.get("score"):
            scores[name] = float(row["score"])
    except (TypeError, ValueError):
        raise InputError("x, y, visibility or score is not a number") from None
