"""What a match is written to: picture, JSON, CSV, flow, warp."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import InputError
from .files import check_outputs, csv_text

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from PIL import Image

    from .match import Match

# The format of each ending, and its most pixels a side
PICTURES = {
    ".png": ("PNG", 2**31 - 1),
    ".jpg": ("JPEG", 65500),
    ".jpeg": ("JPEG", 65500),
    ".webp": ("WEBP", 16383),
}


@dataclass(frozen=True)
class Outputs:
    """The files asked for, None for those that are not; and the style of the picture."""

    picture: Path | None = None
    json: Path | None = None
    flow: Path | None = None
    warp: Path | None = None
    style: str = "lines"
    csv: Path | None = None
    min_confidence: float = 0.0  # matches that are less sure are not there

    def paths(self) -> list[Path]:
        """The files asked for, in the order of writing: if the JSON is there, all are."""
        return [
            path for path in (self.picture, self.warp, self.flow, self.csv, self.json) if path is not None
        ]

    def check(self, *inputs: Path | None) -> None:
        """Raise before any work if a file cannot be written, or would replace one of the inputs."""
        for picture in (self.picture, self.warp):
            if picture is not None and picture.suffix.lower() not in PICTURES:
                raise InputError(f"{picture}: a picture must end in {', '.join(PICTURES)}")
        if self.flow is not None and self.flow.suffix.lower() != ".npz":
            raise InputError(f"{self.flow}: the flow file must end in .npz")
        check_outputs(self.paths(), inputs)

    def render(
        self,
        match: Match,
        points: ArrayLike | None,
        extra: dict[str, Any] | None = None,
        truth: ArrayLike | None = None,
        names: Sequence[str] | None = None,
    ) -> dict[Path, bytes]:
        """The content of everything that was asked for, for :func:`dhpf.files.write_together`.

        Parameters
        ----------
        points
            Source points to show, (K, 2), x then y, in pixels of the source image; None for confident ones.
        extra
            More entries for the JSON file.
        truth
            Where the points belong, (K, 2), x then y, in pixels of the target image; for style "truth".
        names
            Of the points.
        """
        named = {} if names is None else {"names": list(names)}
        described = {**match.to_dict(points, self.min_confidence), **named, **(extra or {})}
        files: dict[Path, bytes] = {}
        if self.picture is not None:
            least = self.min_confidence
            drawn = match.draw(points, self.style, truth=truth, names=names, min_confidence=least)
            files[self.picture] = _encoded(drawn, self.picture)
        if self.warp is not None:
            files[self.warp] = _encoded(match.warp(points), self.warp)
        if self.flow is not None:
            arrays = io.BytesIO()
            np.savez_compressed(arrays, flow=match.flow, confidence=match.confidence)
            files[self.flow] = arrays.getvalue()
        if self.csv is not None:
            files[self.csv] = _table(described).encode()
        if self.json is not None:
            try:
                files[self.json] = (json.dumps(described, indent=1, allow_nan=False) + "\n").encode()
            except ValueError:
                raise InputError(f"{match.model} found NaN or infinity: its weights are of no use") from None
        return files


def _table(described: dict[str, Any]) -> str:
    """A row a point."""
    rows: list[Iterable[object]] = [("name", "source_x", "source_y", "target_x", "target_y", "confidence")]
    count = len(described["source_points"])
    names = described.get("names", range(1, count + 1))
    columns = (described[key] for key in ("source_points", "target_points", "confidence"))
    for name, source, target, confidence in zip(names, *columns, strict=True):
        rows.append((name, *source, *(target or ("", "")), confidence))
    return csv_text(rows)


def _encoded(picture: Image.Image, path: Path) -> bytes:
    """The picture in the format of the path's ending."""
    kind, most = PICTURES[path.suffix.lower()]
    if max(picture.size) > most:
        sides = "{} x {}".format(*picture.size)
        raise InputError(f"cannot write {path}: {sides} pixels, {kind} has at most {most} a side; use .png")
    content = io.BytesIO()
    picture.save(content, kind)
    return content.getvalue()
