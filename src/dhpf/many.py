"""Many pairs: each image's features once, memory bounded, resumed after a kill, divided among processes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .annotate.photo_points import read_photo_points
from .errors import InputError
from .feature_cache import FeatureCache
from .files import check_outputs, make_folder, read_json, real_path, sha256, write_atomically, write_together
from .matcher import Matcher
from .outputs import Outputs
from .pair_list import by_locality, one_to_many, read_jobs
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
        For the results, and a record of what they depend on: the run goes on only with the same.
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
    inputs = {path for job in listed.jobs for path in job.inputs}
    record = folder / "run.json"
    if real_path(folder) == real_path(pairs if others is None else others):
        raise InputError(f"{folder} holds the photos; choose another --out, lest results pass for photos")
    make_folder(folder)
    results = [path for files in outputs.values() for path in files.paths()]
    check_outputs([record, *results], {*inputs, pairs, *used})

    finished = {job for job, files in outputs.items() if all(path.exists() for path in files.paths())}
    settings = {
        **asdict(wanted),
        "model": matcher.name,
        "size": list(matcher.size),
        "weights": matcher.fingerprint,
        "pairs": hashlib.sha256(repr(listed.jobs).encode()).hexdigest(),
        "content": {str(path): _checksum(path) for path in inputs},
    }
    _claim(record, settings, {str(path) for job in finished for path in job.inputs})

    rank, world = rank_and_world_size()
    jobs = by_locality(listed.jobs)
    mine = jobs[len(jobs) * rank // world : len(jobs) * (rank + 1) // world]
    left = [job for job in mine if job not in finished]
    cache = FeatureCache(matcher.features, cache_bytes)
    failed = []
    for job in shown(left, "matching", len(left), hidden=rank > 0):
        try:
            marked, names = read_photo_points(job.points, job.source) if job.points else (None, None)
            match = matcher.match(cache.get(job.source), cache.get(job.target))
            paths = {"source": str(job.source), "target": str(job.target)}
            files = outputs[job].render(match, marked, paths, names=names)
        except InputError as error:
            failed.append(f"pair {job.index}: {error}")
        else:
            write_together(files)
    wait_for_others()
    return Done(len(left) - len(failed), len(mine) - len(left), tuple(failed), listed.ignored)


def _checksum(path: Path) -> str | None:
    """None for what is missing or cannot be read: its pairs will say so."""
    try:
        return sha256(path) if path.is_file() else None
    except OSError:
        return None


def _claim(record: Path, settings: dict[str, Any], used: set[str]) -> None:
    """Leave a record of the run, or see that the finished pairs, which used those files, are of the same run.

    Other files may change: one was damaged, say, and has been mended.
    """
    advice = "choose another --out"
    before = None
    if record.exists():
        before = read_json(record, "record of a run", limit=2**30)
        content = before.get("content") if isinstance(before, dict) else None
        if not isinstance(content, dict):
            raise InputError(f"{record} is not a record of a run; {advice}")
        changed = sorted(key for key in settings if key != "content" and before.get(key) != settings[key])
        if changed:
            names = ", ".join(changed)
            raise InputError(f"{record.parent} holds a run with other settings ({names}); {advice}")
        changed = sorted(path for path in used if content.get(path) != settings["content"][path])
        if changed:
            raise InputError(f"{changed[0]} has changed since {record.parent} got results of it; {advice}")
    elif used:
        raise InputError(f"{record} is missing, which tells how the results beside it were made; {advice}")
    if before != settings:
        write_atomically(record, json.dumps(settings, indent=1).encode())
