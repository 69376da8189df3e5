"""Many pairs: each photo's features once, memory bounded, killed and resumed at will, shared among processes."""

from __future__ import annotations

import csv
import itertools
import json
import os
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from .errors import InputError
from .files import write_atomically
from .matcher import Matcher, PhotoFeatures, load
from .outputs import Outputs
from .points import read_points

PHOTOS = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif"}


@dataclass(frozen=True)
class Wanted:
    """What every pair of a run has in common; kept with the results, so that a resumed run is the same run."""

    model: str
    size: tuple[int, int]
    draw: bool = False
    flow: bool = False
    warp: bool = False


@dataclass(frozen=True)
class Job:
    """One pair of the list."""

    index: int
    source: Path
    target: Path
    points: Path | None

    @property
    def name(self) -> str:
        """Stem of the pair's output files."""
        return f"{self.index:06d}_{self.source.stem}_{self.target.stem}"

    def outputs(self, folder: Path, wanted: Wanted) -> Outputs:
        """The pair's files."""
        return Outputs(
            picture=folder / f"{self.name}.png" if wanted.draw else None,
            json=folder / f"{self.name}.json",
            flow=folder / f"{self.name}.npz" if wanted.flow else None,
            warp=folder / f"{self.name}_warp.png" if wanted.warp else None,
        )


@dataclass(frozen=True)
class Done:
    """What a run did."""

    matched: int
    kept: int  # finished by an earlier run
    failed: tuple[str, ...]  # one line a pair
    folder: Path

    def summary(self) -> str:
        """For the terminal."""
        lines = [f"{self.matched} pairs matched, {self.kept} kept from before, {len(self.failed)} failed: {self.folder}"]
        return "\n".join([*lines, *(f"failed: {line}" for line in self.failed)])


class FeatureCache:
    """The features of recently used photos, up to a number of bytes."""

    def __init__(self, matcher: Matcher, limit: int) -> None:
        self.matcher, self.limit = matcher, limit
        self.held = 0
        self._photos: OrderedDict[Path, PhotoFeatures] = OrderedDict()

    def get(self, path: Path) -> PhotoFeatures:
        """From memory, or computed; what was used longest ago makes room."""
        if path in self._photos:
            self._photos.move_to_end(path)
            return self._photos[path]
        found = self.matcher.features(path)
        self._photos[path] = found
        self.held += found.nbytes
        while self.held > self.limit and len(self._photos) > 1:
            self.held -= self._photos.popitem(last=False)[1].nbytes
        return found


def run(
    pairs: Path, folder: Path, wanted: Wanted, cache_bytes: int, device: str = "cpu", backbone: Path | None = None
) -> Done:
    """Match all pairs of a list or a folder that are not finished yet.

    Under torchrun, this process takes its share. A pair that cannot be matched (a damaged photo, say) is
    reported and does not stop the others.
    """
    from rich.progress import track

    jobs = list(read_jobs(pairs))
    _claim(folder, wanted, jobs)
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    mine = jobs[len(jobs) * rank // world : len(jobs) * (rank + 1) // world]  # neighbours share photos
    open_jobs = [job for job in mine if not all(p.exists() for p in job.outputs(folder, wanted).paths())]
    if not open_jobs:
        return Done(0, len(mine), (), folder)
    cache = FeatureCache(load(wanted.model, wanted.size, device, backbone), cache_bytes)
    failed = []
    for job in track(open_jobs, f"matching ({rank + 1}/{world})" if world > 1 else "matching"):
        try:
            points = read_points(job.points) if job.points else None
            match = cache.matcher.match(cache.get(job.source), cache.get(job.target))
            names = {"source": str(job.source), "target": str(job.target)}
            job.outputs(folder, wanted).write(match, points, names)
        except InputError as error:
            failed.append(f"pair {job.index}: {error}")
    return Done(len(open_jobs) - len(failed), len(mine) - len(open_jobs), tuple(failed), folder)


def read_jobs(pairs: Path) -> Iterator[Job]:
    """The pairs of a CSV (columns source, target and perhaps points), or all pairs of a folder's photos."""
    if pairs.is_dir():
        photos = sorted(path for path in pairs.iterdir() if path.suffix.lower() in PHOTOS)
        if len(photos) < 2:
            raise InputError(f"{pairs} holds {len(photos)} photos; wanted at least two")
        for index, (source, target) in enumerate(itertools.combinations(photos, 2)):
            yield Job(index, source, target, None)
        return
    if not pairs.is_file():
        raise InputError(f"no such list of pairs: {pairs}")
    try:
        with pairs.open(newline="", encoding="utf-8-sig") as stream:
            rows = list(csv.DictReader(stream))
    except (UnicodeDecodeError, csv.Error):
        raise InputError(f"{pairs} cannot be read as CSV; wanted columns source,target[,points]") from None
    if not rows:
        raise InputError(f"{pairs} holds no pairs; wanted a header source,target[,points] and one row a pair")
    for index, row in enumerate(rows):
        if not row.get("source") or not row.get("target"):
            raise InputError(f"{pairs}, line {index + 2}: wanted columns source and target, both filled")
        points = row.get("points")
        beside = pairs.parent  # names count from the list's own folder
        yield Job(index, beside / row["source"], beside / row["target"], beside / points if points else None)


def _claim(folder: Path, wanted: Wanted, jobs: list[Job]) -> None:
    """Make the folder, or see that what it holds is of the same run."""
    settings = json.loads(json.dumps({**asdict(wanted), "pairs": [[str(j.source), str(j.target)] for j in jobs]}))
    record = folder / "run.json"
    if record.exists():
        try:
            before = json.loads(record.read_text(encoding="utf-8"))
        except (OSError, json.JSONDecodeError):
            raise InputError(f"{record} cannot be read; remove it or choose another --out") from None
        changed = sorted(key for key in settings if before.get(key) != settings[key])
        if changed:
            raise InputError(f"{folder} holds another run ({', '.join(changed)} differ); choose another --out")
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {folder}: {error.strerror}") from None
    text = json.dumps(settings, indent=1)
    write_atomically(record, lambda place: place.write_text(text, encoding="utf-8") and None)
