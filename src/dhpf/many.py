"""Many pairs: each photo's features once, memory bounded, resumed after a kill, shared out to processes."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from .errors import InputError
from .files import write_atomically, write_together
from .matcher import ImageFeatures, Matcher, load
from .outputs import Outputs
from .pair_list import Job, by_locality, read_jobs
from .points import read_points
from .processes import rank_and_world_size, wait_for_others


@dataclass(frozen=True)
class Wanted:
    """What all pairs of a run have in common; kept with the results, so that a resumed run is the same."""

    model: str
    size: tuple[int, int]
    backbone: str | None = None  # a local file with the backbone's weights
    draw: bool = False
    flow: bool = False
    warp: bool = False
    style: str = "lines"  # of what is drawn

    def outputs(self, folder: Path, job: Job) -> Outputs:
        """The files of a pair."""
        return Outputs(
            picture=folder / f"{job.name}.png" if self.draw else None,
            json=folder / f"{job.name}.json",
            flow=folder / f"{job.name}.npz" if self.flow else None,
            warp=folder / f"{job.name}_warp.png" if self.warp else None,
            style=self.style,
        )


@dataclass(frozen=True)
class Done:
    """What a run did."""

    matched: int
    kept: int  # finished by an earlier run
    failed: tuple[str, ...]  # one line a pair
    ignored: int  # files of the folder that are not photos
    folder: Path

    def summary(self) -> str:
        """For the terminal, in one line."""
        ignored = f", {self.ignored} files that are not photos ignored" if self.ignored else ""
        counts = f"{self.matched} pairs matched, {self.kept} kept from before, {len(self.failed)} failed"
        return f"{counts}{ignored}: {self.folder}"


class FeatureCache:
    """The features of recently used photos, up to a number of bytes."""

    def __init__(self, matcher: Matcher, limit: int) -> None:
        self.matcher, self.limit = matcher, limit
        self.held = 0
        self._photos: OrderedDict[Path, ImageFeatures] = OrderedDict()

    def get(self, path: Path) -> ImageFeatures:
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


def run(pairs: Path, folder: Path, wanted: Wanted, cache_bytes: int, device: str = "cpu") -> Done:
    """Match all pairs of a list or a folder that are not finished yet.

    Under torchrun, this process takes its share. A pair that cannot be matched (a damaged photo, say) is
    reported and does not stop the others; a result that cannot be written does.
    """
    from rich.console import Console
    from rich.progress import track

    listed = read_jobs(pairs)
    rank, world = rank_and_world_size()
    _claim(folder, wanted, listed.jobs, pairs, first=rank == 0)
    jobs = by_locality(listed.jobs)
    mine = jobs[len(jobs) * rank // world : len(jobs) * (rank + 1) // world]
    left = [job for job in mine if not all(path.exists() for path in wanted.outputs(folder, job).paths())]
    failed = []
    if left:
        cache = FeatureCache(load(wanted.model, wanted.size, device, wanted.backbone), cache_bytes)
        console = Console(stderr=True)
        hidden = rank > 0 or not console.is_terminal
        for job in track(left, "matching", console=console, disable=hidden):
            try:
                points = read_points(job.points) if job.points else None
                match = cache.matcher.match(cache.get(job.source), cache.get(job.target))
                names = {"source": str(job.source), "target": str(job.target)}
                files = wanted.outputs(folder, job).render(match, points, names)
            except InputError as error:
                failed.append(f"pair {job.index}: {error}")
                continue
            write_together(files)
    wait_for_others()
    return Done(len(left) - len(failed), len(mine) - len(left), tuple(failed), listed.ignored, folder)


def _claim(folder: Path, wanted: Wanted, jobs: Sequence[Job], pairs: Path, first: bool) -> None:
    """Make the folder, or see that what it holds is of the same run; the first process leaves a record."""
    if folder.resolve() == pairs.resolve():
        raise InputError(
            f"{folder} holds the photos; choose another --out, so that results are not taken for photos"
        )
    listed = [[str(path) if path else None for path in (job.source, job.target, job.points)] for job in jobs]
    text = json.dumps({**asdict(wanted), "pairs": listed}, indent=1)
    record = folder / "run.json"
    if record.exists():
        try:
            before = json.loads(record.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise InputError(f"{record} cannot be read; remove it or choose another --out") from None
        changed = sorted(key for key, value in json.loads(text).items() if before.get(key) != value)
        if changed:
            names = ", ".join(changed)
            raise InputError(f"{folder} holds a run with other settings ({names}); choose another --out")
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {folder}: {error.strerror}") from None
    if first:
        write_atomically(record, lambda place: place.write_text(text, encoding="utf-8"))
