"""What the readers of all formats share: records of files of strangers, and errors that say where."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ...errors import InputError
from ..annotations import AnnotatedImage, Annotations, Category, Floats, LabelledObject

MOST_BYTES = 1_000_000_000  # of an annotation file
Point = tuple[float, float, float]  # x, y, visibility


@contextlib.contextmanager
def at(place: str) -> Iterator[None]:
    """Errors begin with where they are."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{place}: {error}") from None


def note_lines(notes: Counter[str]) -> tuple[str, ...]:
    """What a file says that annotations cannot hold, for people: a line a kind, with its count."""
    return tuple(f"{kind} (in {count} cases)" for kind, count in notes.items() if count)


class Draft:
    """Images and objects whose categories' keypoints become known while a file is read: of formats that name
    the keypoints of every object and list them nowhere."""

    def __init__(self) -> None:
        self.names: dict[str, dict[str, None]] = {}  # category -> names of its keypoints
        self.images: dict[str, tuple[tuple[int, int] | None, list[dict[str, Any]]]] = {}
        self.notes = Counter[str]()  # kinds of what is left out

    def image(self, file_name: str, size: tuple[int, int] | None = None) -> list[dict[str, Any]]:
        """The image's list of objects, to append to."""
        return self.images.setdefault(file_name, (size, []))[1]

    def object(
        self,
        category: str,
        points: Mapping[str, Point],
        scores: Mapping[str, float] | None = None,
        **others: Any,
    ) -> dict[str, Any]:
        """An object with the keypoints that it shows, by name: x, y, visibility."""
        self.names.setdefault(category, {}).update(dict.fromkeys(points))
        return {"category": category, "points": points, "scores": scores, **others}

    def annotations(self) -> Annotations:
        """All of them, now that all names are known."""
        categories = {name: Category(name, tuple(points)) for name, points in self.names.items()}
        images = []
        for file_name, (size, drafts) in self.images.items():
            with at(file_name[:80]):
                objects = tuple(_finished(categories, **draft) for draft in drafts)
                images.append(AnnotatedImage(file_name, size, objects))
        return Annotations(tuple(categories.values()), tuple(images), note_lines(self.notes))


def _finished(
    categories: Mapping[str, Category],
    category: str,
    points: Mapping[str, Point],
    scores: Mapping[str, float] | None,
    box: Floats | None = None,
    polygons: tuple[Floats, ...] = (),
) -> LabelledObject:
    names = categories[category].keypoints
    keypoints = np.array([points.get(name, (0, 0, 0)) for name in names], np.float64).reshape(-1, 3)
    sure = None if scores is None else np.array([scores.get(name, 0) for name in names], np.float64)
    return LabelledObject(categories[category], keypoints, box, polygons, sure)
