"""DeepLabCut's CSV: a row an image, three or four lines of header: scorer, (individuals,) bodyparts, coords.

What a network predicted has a column likelihood beside x and y. Coordinates count from the first pixel's
centre. An individual's name without its number is taken as category.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
from pathlib import Path

from ...errors import InputError
from ...files import csv_text, read_text
from ..annotations import VISIBLE, AnnotatedImage, Annotations, LabelledObject
from .records import MOST_BYTES, Draft, at

LACKS = (
    *("absent scores", "boxes", "categories", "hidden", "no keypoints"),
    *("origin", "polygons", "skeletons"),
)
SCORER = "dhpf"
MOST_COLUMNS = 100_000


def write(annotations: Annotations) -> str:
    """The file: of one individual an image, in the form for one; else in that for several."""
    names = list(dict.fromkeys(name for one in annotations.categories for name in one.keypoints))
    most = max((len(image.objects) for image in annotations), default=0)
    scored = any(one.scores is not None for image in annotations for one in image.objects)
    coords = ["x", "y", "likelihood"] if scored else ["x", "y"]
    individuals = [f"individual{number}" for number in range(1, max(most, 1) + 1)]
    columns = list(itertools.product(individuals, names, coords))
    header = [["scorer", *(SCORER for _ in columns)]]
    if most > 1:
        header.append(["individuals", *(column[0] for column in columns)])
    header += [
        ["bodyparts", *(column[1] for column in columns)],
        ["coords", *(column[2] for column in columns)],
    ]
    return csv_text([*header, *(_row(image, len(individuals), names, scored) for image in annotations)])


def _row(image: AnnotatedImage, individuals: int, names: list[str], scored: bool) -> list[str]:
    cells = [image.file_name]
    for number in range(individuals):
        points = _by_name(image.objects[number]) if number < len(image.objects) else {}
        for name in names:
            x, y, score = points.get(name, ("", "", ""))
            cells += [x, y, score] if scored else [x, y]
    return cells


def _by_name(one: LabelledObject) -> dict[str, tuple[str, str, str]]:
    scores = [1.0] * len(one.keypoints) if one.scores is None else one.scores.tolist()
    rows = zip(one.category.keypoints, one.keypoints.tolist(), scores, one.shown, strict=True)
    return {
        name: (str(round(x, 2)), str(round(y, 2)), str(round(score, 4)))
        for name, (x, y, _), score, shown in rows
        if shown
    }


def read(path: Path) -> Annotations:
    """A file of DeepLabCut or of this package; the image's name may stand in one column or in three."""
    wanted = "wanted DeepLabCut's header: scorer, bodyparts, coords"
    lines = io.StringIO(read_text(path, "annotation file", MOST_BYTES), newline="")
    try:
        rows = [row for row in csv.reader(lines) if row]
    except csv.Error as error:
        raise InputError(f"{path} cannot be read as CSV ({error}); {wanted}") from None
    titles = [row[0] for row in rows[:4]]
    count = titles.index("coords") + 1 if "coords" in titles else 0
    header = {row[0]: row for row in rows[:count]}
    if not {"scorer", "bodyparts", "coords"} <= header.keys():
        raise InputError(f"{path}: {wanted}")
    width = len(header["coords"])
    if width > MOST_COLUMNS or any(len(row) != width for row in rows):
        raise InputError(f"{path}: its rows differ in length, or are longer than {MOST_COLUMNS:,} columns")
    if not rows[count:]:
        raise InputError(f"{path} holds no images; {wanted}")
    first = next((i for i, cell in enumerate(header["coords"]) if cell == "x"), width)
    individuals = header.get("individuals", ["object"] * width)
    draft = Draft()
    for number, row in enumerate(rows[count:], start=count + 1):
        objects = draft.image("/".join(cell for cell in row[:first] if cell))
        of: dict[str, dict[str, dict[str, float]]] = {}
        with at(f"{path}, row {number}"):
            for i in range(first, width):
                if not math.isnan(value := _number(row[i])):
                    place = of.setdefault(individuals[i], {}).setdefault(header["bodyparts"][i], {})
                    place[header["coords"][i]] = value
        for individual, parts in of.items():
            points = {n: (c["x"], c["y"], VISIBLE) for n, c in parts.items() if {"x", "y"} <= c.keys()}
            scores = {name: c["likelihood"] for name, c in parts.items() if "likelihood" in c}
            category = individual.rstrip("0123456789_- ") or individual
            objects.append(draft.object(category, points, scores or None))
    names = dict.fromkeys(header["bodyparts"][first:])
    for known in draft.names.values():  # all have the same body parts, in the header's order
        ordered = dict.fromkeys(names) | known
        known.clear()
        known.update(ordered)
    with at(str(path)):
        return draft.annotations()


def _number(cell: str) -> float:
    try:
        return float(cell) if cell.strip() else math.nan
    except ValueError:
        raise InputError(f"{cell[:40]!r} is not a number") from None
