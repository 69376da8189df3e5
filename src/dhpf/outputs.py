"""What a match is written to: picture, JSON, flow, warp. Each file is whole or not there."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import InputError
from .files import check_writable, write_atomically

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from PIL import Image

    from .match import Match

PICTURES = (".png", ".jpg", ".jpeg", ".webp")


@dataclass(frozen=True)
class Outputs:
    """The files asked for; None for those that are not."""

    picture: Path | None = None
    json: Path | None = None
    flow: Path | None = None
    warp: Path | None = None

    def paths(self) -> list[Path]:
        """The files asked for, in the order of writing; the JSON is last, so its being there means all are."""
        return [path for path in (self.picture, self.warp, self.flow, self.json) if path is not None]

    def check(self) -> None:
        """Raise before any work if a file cannot be written."""
        for picture in (self.picture, self.warp):
            if picture is not None and picture.suffix.lower() not in PICTURES:
                raise InputError(f"{picture}: a picture must end in {', '.join(PICTURES)}")
        if self.flow is not None and self.flow.suffix.lower() != ".npz":
            raise InputError(f"{self.flow}: the flow file must end in .npz")
        paths = self.paths()
        for path in paths:
            check_writable(path)
        if len({path.resolve() for path in paths}) < len(paths):
            raise InputError("two outputs have the same name; give each its own")

    def write(self, match: Match, points: ArrayLike | None, extra: dict[str, Any] | None = None) -> None:
        """Compute everything that was asked for, then write it."""
        content = json.dumps({**match.to_dict(points), **(extra or {})}, indent=1) if self.json else ""
        pictures: list[tuple[Path, Image.Image]] = []
        if self.picture is not None:
            pictures.append((self.picture, match.draw(points)))
        if self.warp is not None:
            pictures.append((self.warp, match.warp(points)))
        for path, picture in pictures:
            write_atomically(path, picture.save)
        if self.flow is not None:
            arrays = {"flow": match.flow, "confidence": match.confidence}
            write_atomically(self.flow, lambda place: np.savez_compressed(place, **arrays))
        if self.json is not None:
            write_atomically(self.json, lambda place: _write_text(place, content))


def _write_text(path: Path, text: str) -> None:
    path.write_text(text + "\n", encoding="utf-8")
