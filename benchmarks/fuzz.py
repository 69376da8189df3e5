"""Damaged files for every reader: each must give a value, or one line that says what is wrong."""

from __future__ import annotations

import io
import random
import tarfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dhpf import InputError
from dhpf.annotate.formats import encode, read_annotations
from dhpf.backbones.state import read_state
from dhpf.data.check import check
from dhpf.data.mini import make_mini
from dhpf.data.unpack import unpack
from dhpf.evaluate.leakage import read_training_list
from dhpf.evaluate.predictions import Predictions
from dhpf.evaluate.score import score_predictions
from dhpf.heads import read_head
from dhpf.images import read_image, read_size
from dhpf.pair_list import read_jobs
from dhpf.points import read_points
from dhpf.train.checkpoint import STATE
from dhpf.train.checkpoint import read_state as read_training_state
from dhpf.train.recipe import read_recipe
from dhpf.zoo import read_card

ODD: tuple[bytes, ...] = (
    b"\0",
    b"\xff",
    b"\xff" * 4,
    b"\x7f\xff\xff\xff",
    b"\0" * 8,
    b'"',
    b"{",
    b"[" * 3000,
    b"NaN",
    b"null",
)
ODD += (
    b"1e999",
    b"-1",
    b"9" * 5000,
    b"\\ud800",
    b"../",
    b"/etc/passwd",
    b"\x1b[2J",
    b",",
    b"\n",
    b"<script>",
)

DATA = (
    ("CSV", "pf-pascal", "test_pairs.csv"),
    ("mat", "pf-willow", "*.mat"),
    ("JSON", "spair-71k", "*.json"),
)

ANNOTATIONS = {  # the formats, and the endings of their files
    "coco": ".json",
    "cvat": ".xml",
    "label-studio": ".json",
    "deeplabcut": ".csv",
    "json": ".json",
    "csv": ".csv",
}


@dataclass
class Fuzzed:
    """What became of the damaged files of one reader."""

    outcomes: Counter[str] = field(default_factory=Counter)  # read, refused
    escapes: list[str] = field(default_factory=list)  # what should not have happened
    slowest: float = 0.0  # seconds

    def described(self) -> dict[str, Any]:
        """For the record."""
        slowest = round(self.slowest, 2)
        return {**sorted_counts(self.outcomes), "escaped": len(self.escapes), "slowest, s": slowest}


def sorted_counts(counts: Counter[str]) -> dict[str, int]:
    """By name."""
    return {name: counts[name] for name in ("read", "refused")}


def more_inputs(folder: Path) -> None:
    """Annotations of every format, data sets of every kind; a zip archive, and a tar archive with a link."""
    annotations = read_annotations(folder / "references.json")
    for format, ending in ANNOTATIONS.items():
        (folder / f"{format}{ending}").write_bytes(encode(annotations, format).content)
    for _, name, _ in DATA:
        make_mini(name, folder / name)
    with zipfile.ZipFile(folder / "archive.zip", "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("a/b.txt", "words" * 100)
        zipped.writestr("c.txt", "more")
    with tarfile.open(folder / "archive.tar.gz", "w:gz") as tar:
        for name, kind in (("a.txt", tarfile.REGTYPE), ("b.txt", tarfile.SYMTYPE)):
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.size = kind, "a.txt", 5 if kind == tarfile.REGTYPE else 0
            tar.addfile(member, io.BytesIO(b"words"))


def readers(good: Path) -> dict[str, tuple[list[Path], Callable[[Path], object]]]:
    """Name -> sound files, and how one is read."""
    endings = ("png", "jpg", "webp", "tiff", "bmp", "gif", "ppm")

    def in_place(path: Path, damaged: Path, read: Callable[[], object]) -> object:
        """Read a data set or a run with one damaged file."""
        before = path.read_bytes()
        try:
            path.write_bytes(damaged.read_bytes())
            return read()
        finally:
            path.write_bytes(before)

    def data_set(root: Path, pattern: str) -> tuple[list[Path], Callable[[Path], object]]:
        file = min(root.rglob(pattern))
        return [file], lambda damaged: in_place(file, damaged, lambda: check(root))

    return {
        "images": (
            [good / f"{ending}.{ending}" for ending in endings],
            lambda p: (read_image(p), read_size(p)),
        ),
        "predictions (npz)": ([good / "p.npz"], lambda p: score_predictions(Predictions.load(p))),
        "heads (safetensors)": ([good / "head.safetensors"], read_head),
        "weights (safetensors, pth)": ([good / "weights.safetensors", good / "weights.pth"], read_state),
        "training states": (
            [good / "run" / STATE],
            lambda p: in_place(good / "run" / STATE, p, lambda: read_training_state(good / "run")),
        ),
        "points (JSON, CSV)": ([good / "points.json", good / "truth.json", good / "points.csv"], read_points),
        "annotations (JSON, XML, CSV)": (
            [good / f"{format}{ending}" for format, ending in ANNOTATIONS.items()],
            read_annotations,
        ),
        "pair lists (CSV)": ([good / "pairs.csv"], read_jobs),
        "training lists": ([good / "trained.txt"], read_training_list),
        "recipes (TOML)": ([good / "recipe.toml"], read_recipe),
        "cards (JSON)": ([good / "head.json"], read_card),
        **{f"data sets ({kind})": data_set(good / name, pattern) for kind, name, pattern in DATA},
        "archives (zip, tar)": (
            [good / "archive.zip", good / "archive.tar.gz"],
            lambda p: unpack(p, good.parent / "unpacked"),
        ),
    }


def damaged(content: bytes, chance: random.Random) -> bytes:
    """Flip, cut, repeat, overwrite or insert, once or several times; mostly near the beginning."""
    data = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        reach = chance.choice((64, 1024, len(data)))
        place = chance.randrange(min(reach, len(data)) + 1)
        kind = chance.randrange(5)
        if kind == 0 and place < len(data):
            data[place] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del data[place : place + chance.choice((1, 4, 100, len(data)))]
        elif kind == 2:
            data[place:place] = data[place : place + chance.choice((1, 8, 500))]
        elif kind == 3:
            odd = chance.choice(ODD)
            data[place : place + len(odd)] = odd
        else:
            data[place:place] = chance.choice(ODD)
    return bytes(data)


def fuzz(good: Path, scratch: Path, chance: random.Random, seconds: float, most: int) -> dict[str, Fuzzed]:
    """Try all readers in turn, until the time is up or each has had so many files."""
    more_inputs(good)
    tried, known = {name: Fuzzed() for name in readers(good)}, readers(good)
    content = {path: path.read_bytes() for paths, _ in known.values() for path in paths}
    ends, count = time.monotonic() + seconds, 0
    while time.monotonic() < ends and count < most:
        count += 1
        for name, (paths, read) in known.items():
            sound = chance.choice(paths)
            path = scratch / f"damaged{''.join(sound.suffixes)}"
            path.write_bytes(damaged(content[sound], chance))
            begun = time.monotonic()
            try:
                read(path)
                tried[name].outcomes["read"] += 1
            except InputError as error:
                tried[name].outcomes["refused"] += 1
                if "\n" in str(error) or len(str(error)) > 2000:
                    tried[name].escapes.append(f"{len(str(error))} characters: {str(error)[:100]!r}")
            except Exception as error:
                tried[name].escapes.append(f"{type(error).__name__}: {str(error)[:200]}")
                (scratch / f"escaped-{name.split()[0]}-{count}{sound.suffix}").write_bytes(path.read_bytes())
            tried[name].slowest = max(tried[name].slowest, time.monotonic() - begun)
    return tried
