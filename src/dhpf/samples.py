"""The photos that come with the package; their sources and licences are in NOTICE."""

from __future__ import annotations

from pathlib import Path

from .errors import InputError

FOLDER = Path(__file__).parent / "assets" / "samples"
PAIRS = {
    "cheetahs": ("cheetah", "cheetah_cub"),
    "cats": ("chelsea", "cheetah"),
    "big-cats": ("lion", "cheetah_cub"),
}


def sample(name: str) -> Path:
    """Path of a sample photo: cheetah, cheetah_cub, chelsea or lion."""
    path = FOLDER / f"{name}.jpg"
    if not path.exists():
        known = ", ".join(sorted(p.stem for p in FOLDER.glob("*.jpg")))
        raise InputError(f"no sample photo '{name}': known are {known}")
    return path
