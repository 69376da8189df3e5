"""What a run has done so far, on the disc: a line a photo, so that a killed run goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..files import make_folder, read_json, write_atomically
from .annotations import AnnotatedImage, Category, LabelledObject

RECORD = "run.json"


class Journal:
    """A folder with a record of the settings and, for each process, a file of finished photos.

    Parameters
    ----------
    settings
        What results depend on: a run goes on only with the same.
    rank
        Of this process, which writes a file of its own.
    """

    def __init__(
        self, folder: Path, settings: dict[str, Any], categories: tuple[Category, ...], rank: int
    ) -> None:
        self.folder, self.categories = folder, {category.name: category for category in categories}
        self.own = folder / f"photos-{rank}.jsonl"
        self.done: dict[str, tuple[str, AnnotatedImage]] = {}
        self._run: dict[str, int] = {}  # of the photos: by which run they were finished, the last one counts
        make_folder(folder)
        _claim(folder / RECORD, settings)
        self._drop_unfinished_line()
        self.read()
        self.run = 1 + max(self._run.values(), default=0)

    def read(self) -> None:
        """What all processes have finished until now."""
        for path in sorted(self.folder.glob("photos-*.jsonl")):
            with path.open(encoding="utf-8") as lines:
                for line in lines:
                    if line.endswith("\n"):
                        self._take(line, path)

    def get(self, name: str, checksum: str) -> AnnotatedImage | None:
        """A finished photo, if its content is still the same."""
        known, image = self.done.get(name, ("", None))
        return image if known == checksum else None

    def add(self, image: AnnotatedImage, checksum: str) -> None:
        """Finish a photo."""
        line = json.dumps({"run": self.run, **_plain(image, checksum)}, allow_nan=False)
        content = f"{line}\n".encode()
        with self.own.open("ab", buffering=0) as stream:  # in one piece, lest lines of two processes mix
            if stream.write(content) < len(content):
                raise InputError(f"cannot write {self.own}: the disc is full")
        self._take(line, self.own)

    def _take(self, line: str, path: Path) -> None:
        try:
            record = json.loads(line)
            objects = tuple(object_of(one, self.categories) for one in record["objects"])
            image = AnnotatedImage(record["name"], tuple(record["size"]), objects)
            if record["run"] >= self._run.get(image.file_name, 0):
                self.done[image.file_name] = record["sha256"], image
                self._run[image.file_name] = record["run"]
        except (ValueError, KeyError, TypeError):
            raise InputError(f"{path} is damaged; remove {self.folder} to begin again") from None

    def _drop_unfinished_line(self) -> None:
        """A kill may have left half a line, which the next one must not be joined to."""
        if self.own.exists():
            content = self.own.read_bytes()
            whole = content.rfind(b"\n") + 1
            if whole < len(content):
                with self.own.open("r+b") as stream:
                    stream.truncate(whole)


def _claim(record: Path, settings: dict[str, Any]) -> None:
    if record.exists():
        before = read_json(record, "record of a run")
        if before != settings:
            known = before if isinstance(before, dict) else {}
            changed = ", ".join(sorted(key for key in settings if known.get(key) != settings[key]))
            folder = record.parent
            raise InputError(
                f"{folder} holds a run with other settings ({changed}); remove it or choose another --out"
            )
        return
    write_atomically(record, json.dumps(settings, indent=1).encode())


def _plain(image: AnnotatedImage, checksum: str) -> dict[str, Any]:
    objects = [object_record(one) for one in image.objects]
    return {"name": image.file_name, "sha256": checksum, "size": image.size, "objects": objects}


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
