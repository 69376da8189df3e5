"""The photos that come with the package; their sources and licences are in NOTICE."""

from __future__ import annotations

from pathlib import Path

from .errors import InputError

FOLDER = Path(__file__).parent / "assets" / "samples"
PAIRS = {
    "cheetahs": ("cheetah", "cheetah_cub"),
    "birds": ("kingfisher", "macaw"),
    "cattle": ("bison", "cow"),
    "cats": ("chelsea", "cheetah"),
    "big-cats": ("lion", "cheetah_cub"),
}


def sample(name: str) -> Path:
    """Path of a sample photo: bison, cheetah, cheetah_cub, chelsea, cow, kingfisher, lion or macaw."""
    photos = {path.stem: path for path in sorted(FOLDER.glob("*.jpg"))}
    if name not in photos:
        raise InputError(f"no sample photo '{name}': known are {', '.join(photos)}")
    return photos[name]


def sample_pair(name: str) -> tuple[Path, Path]:
    """Paths of a sample pair: cheetahs, birds, cattle, cats or big-cats."""
    if name not in PAIRS:
        raise InputError(f"no sample pair '{name}': known are {', '.join(PAIRS)}")
    source, target = PAIRS[name]
    return sample(source), sample(target)
