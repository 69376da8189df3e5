"""Which pairs to match: a list in a CSV file, all pairs of a folder's photos, or one photo and all others."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import InputError
from .files import read_text, real_path
from .points import parse_points

PHOTOS = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif"}
NAME_LENGTH = 80  # of an image in the names of results; file systems end at 255 for all


@dataclass(frozen=True)
class Job:
    """One pair of the list."""

    index: int
    source: Path
    target: Path
    points: Path | str | None = None  # a file, or as they are typed

    @property
    def name(self) -> str:
        """Stem of the pair's output files."""
        return f"{self.index:06d}_{self.source.stem[:NAME_LENGTH]}_{self.target.stem[:NAME_LENGTH]}"

    @property
    def inputs(self) -> list[Path]:
        """The files that the pair's results depend on."""
        return [path for path in (self.source, self.target, self.points) if isinstance(path, Path)]


@dataclass(frozen=True)
class PairList:
    """The pairs, and how many files of the folder are not photos."""

    jobs: tuple[Job, ...]
    ignored: int = 0


def read_jobs(pairs: Path) -> PairList:
    """The pairs of a CSV (columns source, target and perhaps points), or all pairs of a folder's photos."""
    return _from_folder(pairs) if pairs.is_dir() else _from_csv(pairs)


def one_to_many(reference: Path, folder: Path, points: Path | str | None = None) -> PairList:
    """One photo with every other of a folder; its points are those of all pairs."""
    if reference.is_dir():
        raise InputError(f"{reference} is no photo; wanted PHOTO FOLDER to match one with many")
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder; wanted the photos that {reference} is matched with")
    photos, ignored = list_photos(folder)
    others = [photo for photo in photos if real_path(photo) != real_path(reference)]
    if not others:
        raise InputError(f"{folder} holds no photo to match {reference} with; wanted at least one")
    jobs = (Job(index, reference, photo, points) for index, photo in enumerate(others))
    return PairList(tuple(jobs), ignored)


def by_locality(jobs: Sequence[Job]) -> list[Job]:
    """The pairs in an order in which neighbours share photos, so that a small cache goes far.

    Number the photos as they appear; a pair is then a cell of a square. Z-order (compare the numbers' bits
    in turn) visits the square in blocks within blocks: whatever the cache holds, some blocks fit it.
    """
    photos = dict.fromkeys(path for job in jobs for path in (job.source, job.target))
    number = {path: index for index, path in enumerate(photos)}
    bits = len(number).bit_length()

    def place(job: Job) -> str:
        rows, columns = (f"{number[path]:0{bits}b}" for path in (job.source, job.target))
        return "".join(itertools.chain(*zip(rows, columns, strict=True)))

    return sorted(jobs, key=place)


def list_photos(folder: Path) -> tuple[list[Path], int]:
    """The photos of a folder, in order, and how many of its files are none."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    photos = [path for path in files if path.suffix.lower() in PHOTOS]
    return photos, len(files) - len(photos)


def _from_folder(folder: Path) -> PairList:
    photos, ignored = list_photos(folder)
    if len(photos) < 2:
        raise InputError(f"{folder} holds {len(photos)} photos; wanted at least two")
    jobs = (Job(index, *pair) for index, pair in enumerate(itertools.combinations(photos, 2)))
    return PairList(tuple(jobs), ignored)


def _from_csv(pairs: Path) -> PairList:
    wanted = "wanted a header source,target[,points] and one row a pair"
    lines = io.StringIO(read_text(pairs, "list of pairs"), newline="")
    try:
        reader = csv.DictReader(lines, skipinitialspace=True)
        rows = [(reader.line_num, row) for row in reader]
    except csv.Error:
        raise InputError(f"{pairs} cannot be read as CSV; {wanted}") from None
    if not rows:
        raise InputError(f"{pairs} holds no pairs; {wanted}")
    jobs = []
    for index, (line, row) in enumerate(rows):
        source, target, points = (row.get(column) for column in ("source", "target", "points"))
        if not source or not target:
            raise InputError(f"{pairs}, line {line}: wanted columns source and target, both filled")
        beside = pairs.parent  # names count from the list's own folder
        typed = points if points and parse_points(points) else beside / points if points else None
        jobs.append(Job(index, beside / source, beside / target, typed))
    return PairList(tuple(jobs))
