"""What a match is written to: picture, JSON, flow, warp. Each file is whole or not there."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import InputError
from .files import Writer, check_writable

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from .match import Match

PICTURES = (".png", ".jpg", ".jpeg", ".webp")


@dataclass(frozen=True)
class Outputs:
    """The files asked for, None for those that are not; and the style of the picture."""

    picture: Path | None = None
    json: Path | None = None
    flow: Path | None = None
    warp: Path | None = None
    style: str = "lines"

    def paths(self) -> list[Path]:
        """The files asked for, in the order of writing: if the JSON is there, all are."""
        return [path for path in (self.picture, self.warp, self.flow, self.json) if path is not None]

    def check(self, *inputs: Path | None) -> None:
        """Raise before any work if a file cannot be written, or would replace one of the inputs."""
        for picture in (self.picture, self.warp):
            if picture is not None and picture.suffix.lower() not in PICTURES:
                raise InputError(f"{picture}: a picture must end in {', '.join(PICTURES)}")
        if self.flow is not None and self.flow.suffix.lower() != ".npz":
            raise InputError(f"{self.flow}: the flow file must end in .npz")
        given = {path.resolve() for path in inputs if path is not None}
        for path in self.paths():
            check_writable(path)
            if path.resolve() in given:
                raise InputError(f"{path} is an input; give the output another name")
        if len({path.resolve() for path in self.paths()}) < len(self.paths()):
            raise InputError("two outputs have the same name; give each its own")

    def render(
        self,
        match: Match,
        points: ArrayLike | None,
        extra: dict[str, Any] | None = None,
        truth: ArrayLike | None = None,
    ) -> dict[Path, Writer]:
        """Compute everything that was asked for, to be written by :func:`dhpf.files.write_together`.

        Parameters
        ----------
        points
            Source points to show, (K, 2), x then y, in pixels of the source photo; None for confident ones.
        extra
            More entries for the JSON file.
        truth
            Where the points belong, (K, 2), x then y, in pixels of the target photo; for style "truth".
        """
        described = json.dumps({**match.to_dict(points), **(extra or {})}, indent=1) + "\n"
        files: dict[Path, Writer] = {}
        if self.picture is not None:
            files[self.picture] = match.draw(points, self.style, truth=truth).save
        if self.warp is not None:
            files[self.warp] = match.warp(points).save
        if self.flow is not None:
            flow, confidence = match.flow, match.confidence
            files[self.flow] = lambda path: np.savez_compressed(path, flow=flow, confidence=confidence)
        if self.json is not None:
            files[self.json] = lambda path: path.write_text(described, encoding="utf-8")
        return files
