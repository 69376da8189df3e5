"""Many pairs: each image's features once, memory bounded, resumed after a kill, divided among processes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from .annotate.photo_points import read_photo_points
from .errors import InputError
from .feature_cache import FeatureCache
from .files import check_outputs, make_folder, real_path, sha256, write_together
from .journal import Journal
from .matcher import Matcher
from .outputs import Outputs
from .pair_list import Job, by_locality, one_to_many, read_jobs
from .processes import rank_and_world_size, wait_for_others
from .progress import shown


@dataclass(frozen=True)
class Wanted:
    """What is written for each pair, besides its JSON."""

    draw: bool = False
    flow: bool = False
    warp: bool = False
    style: str = "lines"  # of what is drawn
    csv: bool = False
    min_confidence: float = 0.0

    def outputs(self, stem: Path) -> Outputs:
        """The files of a pair."""
        return Outputs(
            picture=Path(f"{stem}.png") if self.draw else None,
            json=Path(f"{stem}.json"),
            flow=Path(f"{stem}.npz") if self.flow else None,
            warp=Path(f"{stem}_warp.png") if self.warp else None,
            style=self.style,
            csv=Path(f"{stem}.csv") if self.csv else None,
            min_confidence=self.min_confidence,
        )


@dataclass(frozen=True)
class Done:
    """What a run did."""

    matched: int
    kept: int  # finished by an earlier run
    failed: tuple[str, ...]  # one line a pair
    ignored: int  # files of the folder that are not images


def match_many(
    matcher: Matcher,
    pairs: Path,
    folder: Path,
    wanted: Wanted,
    cache_bytes: int,
    others: Path | None = None,
    points: Path | str | None = None,
    used: Iterable[Path] = (),
) -> Done:
    """Match all pairs of a list or a folder that are not finished yet.

    Under torchrun, this process takes its part. A pair that cannot be matched (a damaged image, say) is
    reported and does not stop the others; a result that cannot be written does.

    Parameters
    ----------
    pairs
        A CSV file with columns source, target and perhaps points; a folder, for all pairs of its images; or,
        with ``others``, one image.
    folder
        For the results, and a journal of what they depend on. A run goes on only with the same settings;
        pairs whose photos or points have changed are matched again.
    cache_bytes
        Bound on the memory for features that may be used again.
    others
        A folder whose images that one image is matched with.
    points
        Of that one image: a file, or as they are typed.
    used
        Further files that results must not replace.
    """
    listed = read_jobs(pairs) if others is None else one_to_many(pairs, others, points)
    outputs = {job: wanted.outputs(folder / job.name) for job in listed.jobs}
    if real_path(folder) == real_path(pairs if others is None else others):
        raise InputError(f"{folder} holds the photos; choose another --out, lest results pass for photos")
    settings = {
        **asdict(wanted),
        "model": matcher.name,
        "size": matcher.size,
        "weights": matcher.fingerprint,
        "pairs": hashlib.sha256(repr(listed.jobs).encode()).hexdigest(),
    }
    rank, world = rank_and_world_size()
    journal = Journal(folder / "run", settings, rank, lambda line: (line["pair"], line["content"]))
    make_folder(folder)
    results = [path for files in outputs.values() for path in files.paths()]
    inputs = {path for job in listed.jobs for path in job.inputs}
    check_outputs([journal.own, *results], {*inputs, pairs, *used})
    there = next((path for path in results if path.exists()), None)
    if there is not None and not journal.begun():
        raise InputError(f"{there} is of another run, or of one that was damaged; choose another --out")
    finished = dict(journal.finished())
    checksum = cache(_checksum)

    def content(job: Job) -> dict[str, str | None]:
        """Of what the pair's results depend on."""
        return {str(path): checksum(path) for path in job.inputs}

    def is_finished(job: Job) -> bool:
        whole = job.name in finished and all(path.exists() for path in outputs[job].paths())
        return whole and finished[job.name] == content(job)

    jobs = by_locality(listed.jobs)
    mine = jobs[len(jobs) * rank // world : len(jobs) * (rank + 1) // world]
    left = [job for job in mine if not is_finished(job)]
    features = FeatureCache(matcher.features, cache_bytes)
    failed = []
    with journal.appending() as keep:
        for job in shown(left, "matching", len(left), hidden=rank > 0):
            try:
                made_of = content(job)
                marked, names = read_photo_points(job.points, job.source) if job.points else (None, None)
                match = matcher.match(features.get(job.source), features.get(job.target))
                paths = {"source": str(job.source), "target": str(job.target)}
                files = outputs[job].render(match, marked, paths, names=names)
            except InputError as error:
                failed.append(f"pair {job.index}: {error}")
            else:
                write_together(files)
                keep({"pair": job.name, "content": made_of})
    wait_for_others()
    return Done(len(left) - len(failed), len(mine) - len(left), tuple(failed), listed.ignored)


def _checksum(path: Path) -> str | None:
    """None for what is missing or cannot be read: its pairs will say so."""
    try:
        return sha256(path) if path.is_file() else None
    except OSError:
        return None
