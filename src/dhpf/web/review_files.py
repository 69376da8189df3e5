"""Where a review is on the disc: its annotations, the log of its changes, its photos."""

from __future__ import annotations

from pathlib import Path

from ..annotate.photos import find_photo
from ..errors import InputError
from ..files import check_outputs


def review_files(annotations: Path) -> tuple[Path, Path]:
    """The review's file and its log."""
    own = Path(f"{annotations}.log")
    if own.is_file():
        return annotations, own
    path = annotations.with_name(f"{annotations.stem}.reviewed.json")
    log = Path(f"{path}.log")
    if path.exists() and not log.is_file():
        raise InputError(f"{path} is there, but not of a review (it has no {log.name}); move it away first")
    check_outputs([path, log], [annotations])
    return path, log


def photo_below(images: Path, name: str, file: Path) -> Path:
    """The photo of that name, below the folder also if links are followed."""
    path = find_photo(name, [images])
    if path is None:
        raise InputError(f"{file}: its photo {name} is not in {images}; give its folder as --images")
    if not path.resolve().is_relative_to(images.resolve()):
        raise InputError(f"{file}: its photo {name} is a link out of {images}; wanted photos below it")
    return path
