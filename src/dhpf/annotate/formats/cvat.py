"""CVAT for images 1.1, in XML: boxes, polygons, masks and skeletons, joined to objects by their groups.

Coordinates count from the image's corner. Files that declare entities or any other document type are refused.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.parsers import expat

import numpy as np

from ...errors import InputError
from ...files import read_bytes
from ...images import MOST_PIXELS
from ..annotations import ABSENT, HIDDEN, VISIBLE, Annotations, Floats, LabelledObject
from ..outlines import outlines
from .records import MOST_BYTES, Draft, Point, at

Element = ElementTree.Element
LACKS = ("scores", "skeletons")
SHAPES = ("box", "polygon", "mask", "skeleton", "points")


def write(annotations: Annotations) -> str:
    """The file. An image's objects are its groups, from 1."""
    root = Element("annotations")
    ElementTree.SubElement(root, "version").text = "1.1"
    for number, image in enumerate(annotations):
        width, height = image.size or (0, 0)
        about = {"id": number, "name": image.file_name, "width": width, "height": height}
        node = _sub(root, "image", **about)
        for group, one in enumerate(image.objects, start=1):
            _write_object(node, one, group)
    ElementTree.indent(root)
    text = io.StringIO()
    ElementTree.ElementTree(root).write(text, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text.getvalue()}\n'


def read(path: Path) -> Annotations:
    """A file of CVAT or of this package."""
    root = _parse(read_bytes(path, "CVAT file", MOST_BYTES), path)
    draft = Draft()
    for number, node in enumerate(root.findall("image")):
        with at(f"{path}, image {number + 1}"):
            width, height = (_number(node, side) for side in ("width", "height"))
            size = (int(width), int(height)) if width > 0 and height > 0 else None
            found = draft.image(node.get("name", ""), size)
            found += [_read_object(shapes, draft) for shapes in _objects(node, draft.notes)]
    if not draft.images:
        raise InputError(f"{path} holds no images; wanted the export 'CVAT for images 1.1'")
    with at(str(path)):
        return draft.annotations()


def _sub(parent: Element, tag: str, **attributes: object) -> Element:
    return ElementTree.SubElement(parent, tag, {key: str(value) for key, value in attributes.items()})


def _write_object(node: Element, one: LabelledObject, group: int) -> None:
    about = {"label": one.category.name, "source": "manual" if one.scores is None else "auto", "occluded": 0}
    if one.box is not None:
        sides = dict(zip(("xtl", "ytl", "xbr", "ybr"), (one.box + 0.5).round(2).tolist(), strict=True))
        _sub(node, "box", **about, **sides, z_order=0, group_id=group)
    for polygon in one.polygons:
        _sub(node, "polygon", **about, points=_text(polygon), z_order=0, group_id=group)
    if one.category.keypoints:
        skeleton = _sub(node, "skeleton", **about, z_order=0, group_id=group)
        for name, (x, y, visibility) in zip(one.category.keypoints, one.keypoints, strict=True):
            state = {"occluded": int(visibility == HIDDEN), "outside": int(visibility == ABSENT)}
            _sub(
                skeleton,
                "points",
                label=name,
                source=about["source"],
                **state,
                points=_text(np.array([[x, y]])),
            )


def _text(points: Floats) -> str:
    return ";".join(f"{x:.2f},{y:.2f}" for x, y in points + 0.5)


def _parse(content: bytes, path: Path) -> Element:
    """The tree, without entities: they can grow without bound, or name files."""

    def refuse(*_: Any) -> None:
        raise InputError(f"{path} declares a document type or entities; a CVAT export has neither")

    builder = ElementTree.TreeBuilder()
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    try:
        parser.Parse(content, True)
        root = builder.close()
    except (expat.ExpatError, LookupError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is not valid XML ({error})") from None
    if root.tag != "annotations":
        raise InputError(f"{path} is not of CVAT: it begins with <{root.tag[:40]}>, not <annotations>")
    return root


def _objects(node: Element, notes: Counter[str]) -> Iterator[list[Element]]:
    """The shapes of each object: those of a group; ungrouped, those of a label that occur once a kind."""
    groups: dict[tuple[str, str], list[Element]] = {}
    for number, shape in enumerate(node):
        label, group = shape.get("label", ""), shape.get("group_id", "0")
        if shape.tag not in SHAPES:
            notes[f"<{shape.tag[:20]}> of CVAT is left out"] += 1
            continue
        if shape.tag == "points" and ";" not in shape.get("points", ""):
            label = "object"  # a point that stands alone is a keypoint, its label the keypoint's name
        key = label, group
        alike = (one.tag for one in groups.get(key, ()) if one.tag not in ("polygon", "points"))
        if group == "0" and shape.tag in alike:
            key = label, f"alone {number}"
        groups.setdefault(key, []).append(shape)
    yield from groups.values()


def _read_object(shapes: list[Element], draft: Draft) -> dict[str, Any]:
    category, box, polygons = "object", None, []
    points: dict[str, Point] = {}
    for shape in shapes:
        label = shape.get("label", "")
        category = label if shape.tag != "points" or ";" in shape.get("points", "") else category
        if shape.tag == "box":
            box = np.array([_number(shape, side) for side in ("xtl", "ytl", "xbr", "ybr")]) - 0.5
        elif shape.tag == "polygon":
            polygons.append(_points(shape))
        elif shape.tag == "mask":
            parts, holes = outlines(_mask(shape))
            corner = [_number(shape, "left"), _number(shape, "top")]
            polygons += [part + corner for part in parts]
            draft.notes["holes of masks are filled"] += holes
        else:
            _add_points(shape, points)
    return draft.object(category, points, box=box, polygons=tuple(polygons))


def _add_points(shape: Element, points: dict[str, Point]) -> None:
    """Of a skeleton, with names; of a row of points, numbered; of one point, whose label is its name."""
    named = (
        [(one.get("label", ""), one) for one in shape.findall("points")] if shape.tag == "skeleton" else []
    )
    if shape.tag == "points":
        named = [(shape.get("label", ""), shape)]
    for name, one in named:
        places = _points(one)
        for number, (x, y) in enumerate(places.tolist(), start=1):
            called = name if len(places) == 1 else str(number)
            if called in points:
                raise InputError(f"{called[:40]!r} occurs twice; use a skeleton or group for each object")
            visibility = HIDDEN if one.get("occluded") == "1" else VISIBLE
            absent = one.get("outside") == "1"
            points[called] = (0, 0, ABSENT) if absent else (x, y, visibility)


def _points(shape: Element) -> Floats:
    try:
        rows = [[float(part) for part in pair.split(",")] for pair in shape.get("points", "").split(";")]
        if all(len(row) == 2 for row in rows):
            return np.array(rows, np.float64) - 0.5
    except ValueError:
        pass
    raise InputError(f"the points of a <{shape.tag}> are not x,y;x,y")


def _mask(shape: Element) -> Any:
    """Run lengths row by row, from the background, of the part between left, top, width and height."""
    width, height = (int(_number(shape, side)) for side in ("width", "height"))
    if not (width > 0 and height > 0 and width * height <= MOST_PIXELS):
        raise InputError(f"a mask of {width} x {height} pixels; at most {MOST_PIXELS:,} are wanted")
    text = shape.get("rle", "").split(",")
    runs = [int(run) for run in text if run.strip().isascii() and run.strip().isdecimal()]
    if len(runs) != len(text) or sum(runs) != width * height:
        raise InputError("the mask's run lengths do not add up to its size")
    return np.repeat(np.arange(len(runs)) % 2 == 1, runs).reshape(height, width)


def _number(node: Element, key: str) -> float:
    try:
        value = float(node.get(key, ""))
    except ValueError:
        value = np.nan
    if not abs(value) < 1e9:
        raise InputError(f"<{node.tag}> has no number {key!r}")
    return value
