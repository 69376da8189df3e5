"""A matcher and a data set -> a predictions file: resumed after a kill, shared out to processes."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ..data.caltech101 import Caltech101
from ..data.pairs import PairDataset
from ..errors import InputError
from ..files import check_writable
from ..matcher import Matcher
from ..pair_list import Job, by_locality
from ..processes import processes_here, rank_and_world_size, wait_for_others
from ..progress import shown
from .parts import Parts, Skip
from .pipeline import Pipeline, worker_threads
from .predictions import PairPrediction, Predictions
from .protocol import DIRECTIONS
from .provenance import code_version, training_images

CACHE_BYTES = 2**30  # for the features of images that may recur
MOST_WORKERS = 16  # by default; each needs about 120 MB for inputs of 240 x 240


@dataclass(frozen=True)
class Predicted:
    """What a run did."""

    predictions: Predictions | None  # of all processes; only the first process has them
    computed: int  # pairs that this process computed
    images: int  # of which it computed the features
    kept: int  # pairs finished by an earlier run

    @property
    def moved(self) -> int:
        """Source points that lie outside their image, and were transferred from its edge."""
        if self.predictions is None:
            return 0
        sizes = np.repeat(self.predictions.source_sizes, np.diff(self.predictions.point_offsets), axis=0)
        points = self.predictions.source_points
        return int(((points < 0) | (points > sizes)).any(axis=1).sum())


def predict(
    matcher: Matcher,
    dataset: PairDataset,
    out: str | Path,
    *,
    split: str | None = None,
    direction: str = DIRECTIONS[0],
    workers: int | None = None,
    cache_bytes: int = CACHE_BYTES,
) -> Predicted:
    """Predict all pairs of a split and write them to a file, in the order of the split.

    The same call goes on where a killed one was. Under torchrun this process takes its share, and the first
    process writes the file when all have finished. The file does not depend on any of that. A pair without
    common points or with an unreadable file is skipped; the file says which and why. Points outside their
    image, of which annotators left a few, are transferred from its edge.

    Parameters
    ----------
    out
        The predictions file; finished pairs wait beside it, in ``OUT.part-*``.
    split
        What the file calls the split, where the data set's own name for it does not tell all.
    direction
        ``target-to-source`` carries points from the second image of each pair to the first.
    workers
        Images and pairs to compute side by side; by default one for each processor.
    cache_bytes
        Bound on the memory for the features of images that may recur.
    """
    out = Path(out)
    check_writable(out)
    if direction not in DIRECTIONS:
        raise InputError(f"direction {direction!r}; wanted: {' or '.join(DIRECTIONS)}")
    if len(dataset) == 0:
        raise InputError(f"{dataset.root}: the split {dataset.split} of {dataset.name} is empty")
    rank, world = rank_and_world_size()
    order = order_of_pairs(dataset)
    mine = order[len(order) * rank // world : len(order) * (rank + 1) // world]
    about = _about(matcher, dataset, split or dataset.split, direction)
    parts = Parts(out, about, rank)
    before = parts.finished()
    left = [index for index in mine if index not in before]
    workers = workers or default_workers()
    with worker_threads(workers) as pool, parts.appending() as keep:
        pipeline = Pipeline(
            matcher,
            dataset,
            polygons=about["kind"] == "polygons",
            direction=direction,
            pool=pool,
            workers=workers,
            cache_bytes=cache_bytes,
        )
        for index, outcome in shown(pipeline.outcomes(left), "predicting", len(left), hidden=rank > 0):
            keep(index, outcome)
    wait_for_others()
    predictions = None if rank else _merge(parts, dataset, about)
    return Predicted(predictions, len(left), pipeline.images, len(mine) - len(left))


def default_workers() -> int:
    """One for each processor that this process may use, shared with the other processes of torchrun."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(MOST_WORKERS, processors // processes_here()))


def order_of_pairs(dataset: PairDataset) -> list[int]:
    """The pairs in an order in which images recur soon: pairs that no image connects are kept apart."""
    jobs = [Job(index, entry.source, entry.target) for index, entry in enumerate(dataset.entries)]
    numbers: dict[Path, int] = {}
    ends = [[numbers.setdefault(path, len(numbers)) for path in (job.source, job.target)] for job in jobs]
    shape = len(numbers), len(numbers)
    graph = coo_array((np.ones(len(ends)), tuple(np.transpose(ends))), shape=shape)
    group = connected_components(graph, directed=False)[1]
    return [job.index for job in sorted(by_locality(jobs), key=lambda job: group[numbers[job.source]])]


def _about(matcher: Matcher, dataset: PairDataset, split: str, direction: str) -> dict[str, Any]:
    """What tells this run from others: a run goes on with the parts of its own kind only."""
    ids = "\n".join(entry.id for entry in dataset.entries)
    weights = hashlib.sha256()
    for name, value in sorted(matcher.network.state_dict().items()):
        weights.update(name.encode() + value.cpu().numpy().tobytes())
    return {
        "dataset": dataset.name,
        "split": split,
        "pairs": hashlib.sha256(ids.encode()).hexdigest(),
        "kind": "polygons" if dataset.name == Caltech101.name else "keypoints",
        "direction": direction,
        "model": matcher.name,
        "layers": list(matcher.network.candidates()),
        "weights": weights.hexdigest(),
        "motion": matcher.network.motion,
        "closer": matcher.network.closer,
        "size": matcher.size,
        "device": matcher.device.type,
        "commit": code_version(),
        "torch": torch.__version__,
    }


def _merge(parts: Parts, dataset: PairDataset, about: dict[str, Any]) -> Predictions:
    """All pairs in the order of the split -> the output; then the parts are not needed any more."""
    found = parts.finished()
    missing = len(dataset) - len(found)
    if missing:
        raise InputError(
            f"{parts.out}: {missing} of {len(dataset)} pairs are not finished by the other processes; "
            "run the same command again"
        )
    outcomes = [found[index] for index in range(len(dataset))]
    pairs = [outcome for outcome in outcomes if isinstance(outcome, PairPrediction)]
    skipped = [(outcome.pair_id, outcome.reason) for outcome in outcomes if isinstance(outcome, Skip)]
    if not pairs:
        parts.remove()
        raise InputError(
            f"{dataset.root}: none of the {len(dataset)} pairs of {dataset.name}, {about['split']} can be "
            f"predicted; the first: {skipped[0][1]}"
        )
    predictions = Predictions.of_pairs(
        pairs,
        dataset=dataset.name,
        split=about["split"],
        model=about["model"],
        commit=about["commit"],
        kind=about["kind"],
        direction=about["direction"],
        input_size=about["size"],
        training_images=training_images(about["model"]),
        skipped=skipped,
    )
    predictions.save(parts.out)
    parts.remove()
    return predictions
