"""A matcher and a data set -> a predictions file: resumed after a kill, shared out to processes."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ..data.caltech101 import Caltech101
from ..data.pairs import PairDataset
from ..errors import InputError, unknown
from ..files import check_writable
from ..journal import Journal
from ..matcher import Matcher
from ..pair_list import Job, by_locality
from ..processes import processes_here, rank_and_world_size, wait_for_others
from ..progress import shown
from ..zoo import training_images
from .pipeline import Outcome, Pipeline, worker_threads
from .predictions import PairPrediction, Predictions
from .protocol import DIRECTIONS
from .provenance import code_version
from .storage import has_array

CACHE_BYTES = 2**30  # for the features of images that may recur
MOST_WORKERS = 16  # by default; each needs about 120 MB for inputs of 240 x 240


@dataclass(frozen=True)
class Predicted:
    """What a run did."""

    predictions: Predictions | None  # of all processes; only the first process has them
    computed: int  # pairs that this process computed
    images: int  # of which it computed the features
    kept: int  # pairs finished by an earlier run


def predict(
    matcher: Matcher,
    dataset: PairDataset,
    out: str | Path,
    *,
    split: str | None = None,
    direction: str = DIRECTIONS[0],
    limit: int | None = None,
    workers: int | None = None,
    cache_bytes: int = CACHE_BYTES,
) -> Predicted:
    """Predict all pairs of a split and write them to a file, in the order of the split.

    The same call resumes where a killed one was. Under torchrun this process takes its part of the pairs, and
    the first process writes the file when all have finished. The file does not depend on any of that. A pair
    without common points or with an unreadable file is skipped; the file says which and why. Points outside
    their image, of which annotators left a few, are transferred from its edge.

    Parameters
    ----------
    out
        The predictions file; finished pairs wait beside it, in ``OUT.part-*``.
    split
        What the file calls the split, where the data set's own name for it does not tell all.
    direction
        ``target-to-source`` carries points from the second image of each pair to the first.
    limit
        Predict that many pairs only, evenly spaced over the split: see :func:`evenly_spaced`.
    workers
        Images and pairs to compute side by side; by default one for each processor.
    cache_bytes
        Bound on the memory for the features of images that may recur.
    """
    [found] = predict_side_by_side(
        {Path(out): matcher},
        dataset,
        split=split,
        direction=direction,
        limit=limit,
        workers=workers,
        cache_bytes=cache_bytes,
    )
    return found


def predict_side_by_side(
    matchers: Mapping[Path, Matcher],
    dataset: PairDataset,
    *,
    split: str | None = None,
    direction: str = DIRECTIONS[0],
    limit: int | None = None,
    workers: int | None = None,
    cache_bytes: int = CACHE_BYTES,
) -> list[Predicted]:
    """Predict with several matchers, pair by pair, each into a file of its own; as :func:`predict`.

    All see an image soon after each other: what they share of it need not be kept for long.
    """
    for out in matchers:
        check_writable(out)
        if out.exists() and out.stat().st_size and not has_array(out, "format"):  # a pair list, a head ...
            raise InputError(f"{out} exists and holds no predictions; give the output another name")
    if direction not in DIRECTIONS:
        raise unknown("direction", direction, DIRECTIONS)
    if len(dataset) == 0:
        raise InputError(f"{dataset.root}: the split {dataset.split} of {dataset.name} is empty")
    rank, world = rank_and_world_size()
    chosen = evenly_spaced(len(dataset), limit)
    order = order_of_pairs(dataset, chosen)
    mine = order[len(order) * rank // world : len(order) * (rank + 1) // world]
    runs = []
    for out, matcher in matchers.items():
        about = _about(matcher, dataset, chosen, split or dataset.split, direction)
        header = _header(about, len(dataset))
        entries = [dataset.entries[index] for index in chosen]
        # Texts that the file cannot hold are an error now, not after hours.
        Predictions.of_pairs([], **header, skipped=[(entry.id, entry.category) for entry in entries])
        pipeline = Pipeline(
            matcher,
            dataset,
            polygons=about["kind"] == "polygons",
            direction=direction,
            cache_bytes=cache_bytes // len(matchers),
        )
        journal = Journal(out.with_name(f"{out.name}.part"), about, rank, partial(_finished, about["kind"]))
        finished = {index for index, _ in journal.finished()}
        runs.append(_Run(out, header, pipeline, journal, {*mine} - finished))
    left = [index for index in mine if any(index in run.left for run in runs)]

    def outcomes(index: int) -> list[Outcome | None]:
        return [run.pipeline.outcome(index) if index in run.left else None for run in runs]

    with worker_threads(workers or default_workers()) as pool, ExitStack() as files:
        keeping = [files.enter_context(run.journal.appending()) for run in runs]
        computed = zip(left, pool.map(outcomes, left), strict=True)
        for index, found in shown(computed, "predicting", len(left), hidden=rank > 0):
            for keep, outcome in zip(keeping, found, strict=True):
                if outcome is not None:
                    content = outcome if isinstance(outcome, str) else asdict(outcome)
                    keep({"index": index, "outcome": content})
    wait_for_others()
    return [
        Predicted(
            None if rank else _merge(run, dataset, chosen),
            len(run.left),
            run.pipeline.features.computed,
            len(mine) - len(run.left),
        )
        for run in runs
    ]


class _Run(NamedTuple):
    """One matcher's part in a run of predictions."""

    out: Path
    header: dict[str, Any]
    pipeline: Pipeline
    journal: Journal[tuple[int, Outcome]]
    left: Set[int]  # indices of the pairs that this process is to compute


def default_workers() -> int:
    """One for each processor that this process may use, shared with the other processes of torchrun."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(MOST_WORKERS, processors // processes_here()))


def evenly_spaced(pairs: int, limit: int | None) -> list[int]:
    """The indices 0, M/N, 2M/N, ... (rounded down) of N of M pairs, or all: the same in every run."""
    if limit is not None and limit < 1:
        raise InputError(f"limit {limit}: wanted a number of pairs, 1 or more")
    count = pairs if limit is None else min(limit, pairs)
    return [number * pairs // count for number in range(count)]


def order_of_pairs(dataset: PairDataset, chosen: Sequence[int]) -> list[int]:
    """The pairs in an order in which images recur soon."""
    jobs = [Job(index, dataset.entries[index].source, dataset.entries[index].target) for index in chosen]
    return [job.index for job in by_locality(jobs)]


def _about(
    matcher: Matcher, dataset: PairDataset, chosen: Sequence[int], split: str, direction: str
) -> dict[str, Any]:
    """What tells this run from others: a run goes on with the parts of its own kind only."""
    ids = "\n".join(dataset.entries[index].id for index in chosen)
    return {
        "dataset": dataset.name,
        "split": split,
        "pairs": hashlib.sha256(ids.encode()).hexdigest(),
        "kind": "polygons" if dataset.name == Caltech101.name else "keypoints",
        "direction": direction,
        "model": matcher.name,
        "config": matcher.description,
        "weights": matcher.fingerprint,
        "size": matcher.size,
        "device": matcher.device.type,
        "commit": code_version(),
        "torch": torch.__version__,
    }


def _header(about: dict[str, Any], split_pairs: int) -> dict[str, Any]:
    """What the file says about all pairs."""
    same = ("dataset", "split", "model", "commit", "kind", "direction")
    return {
        **{name: about[name] for name in same},
        "config": json.dumps(about["config"], sort_keys=True),
        "input_size": about["size"],
        "split_pairs": split_pairs,
        "training_images": training_images(about["model"]),
    }


def _finished(kind: str, content: Any) -> tuple[int, Outcome]:
    """A line of the journal: the pair's index in the split, and its outcome."""
    outcome: Outcome = content["outcome"]
    if not isinstance(outcome, str):
        outcome = PairPrediction(**content["outcome"])
        outcome.check(kind)
    return int(content["index"]), outcome


def _merge(run: _Run, dataset: PairDataset, chosen: Sequence[int]) -> Predictions:
    """All pairs in the order of the split -> the output; then the journal is not needed any more."""
    found = dict(run.journal.finished())
    missing = len(set(chosen) - set(found))
    if missing:
        raise InputError(
            f"{run.out}: {missing} of {len(chosen)} pairs are not finished by the other processes; "
            "run the same command again"
        )
    pairs, skipped = [], []
    for index in chosen:
        outcome = found[index]
        if isinstance(outcome, str):
            skipped.append((dataset.entries[index].id, outcome))
        else:
            pairs.append(outcome)
    if not pairs:
        run.journal.remove()
        raise InputError(
            f"{dataset.root}: none of the {len(chosen)} pairs of {dataset.name}, {run.header['split']} "
            f"can be predicted; the first: {skipped[0][1]}"
        )
    predictions = Predictions.of_pairs(pairs, **run.header, skipped=skipped)
    predictions.save(run.out)
    run.journal.remove()
    return predictions
