"""A predictions file and a protocol -> figures."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .breakdown import RESAMPLES, Summary, groups, summarise
from .leakage import leak_free_pairs
from .metrics import pair_masks, pair_pck, threshold_lengths
from .predictions import Predictions
from .protocol import ALPHAS, Protocol, protocol_for

MASK_METRICS = ("LT-ACC", "IoU")


@dataclass(frozen=True)
class Score:
    """All figures of one predictions file under one protocol, in percent."""

    dataset: str
    split: str
    model: str
    commit: str
    kind: str  # keypoints (PCK) or polygons (LT-ACC and IoU)
    protocol: Protocol
    metrics: tuple[str, ...]  # the alphas as written, or the names of the mask metrics
    overall: Summary
    breakdowns: Mapping[str, Mapping[str, Summary]]  # by category, flags, number of points
    training_images: int | None  # how many the model names; None: not stated
    leak_free: Summary | None  # of the pairs that share no image with them; None: not stated, or no pair
    skipped: tuple[tuple[str, str], ...]  # (pair id, reason) of pairs that were not predicted
    notes: tuple[str, ...]  # what else a reader must know
    pair_values: NDArray[np.float64]  # (P, M) of each pair

    @property
    def fingerprint(self) -> str:
        """The protocol in one line."""
        return self.protocol.fingerprint(self.kind)

    @property
    def category_mean(self) -> tuple[float, ...]:
        """The mean over categories of their figures: every category counts the same."""
        values = [summary.values for summary in self.breakdowns["category"].values()]
        return tuple(np.mean(values, axis=0).tolist())


def score_predictions(
    predictions: Predictions,
    protocol: Protocol | None = None,
    alphas: Sequence[float] = ALPHAS,
    *,
    training_images: Collection[str] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Score:
    """Score a predictions file.

    Parameters
    ----------
    protocol
        Default: that of the data set.
    alphas
        Of PCK: a point is right within alpha times the protocol's length. Unused for polygons.
    training_images
        Names of the images that the model was trained on, if the predictions do not state them.
    resamples, seed
        Of the bootstrap behind the confidence intervals.
    """
    protocol = protocol or protocol_for(predictions.dataset)
    _check(predictions, protocol, alphas)
    counts = np.diff(predictions.point_offsets)
    weights = np.ones(len(predictions))
    if predictions.kind == "keypoints":
        metrics = tuple(f"{alpha:g}" for alpha in alphas)
        values = pair_pck(predictions, protocol, alphas)
        if protocol.average == "point":
            weights = counts.astype(np.float64)
    else:
        metrics = MASK_METRICS
        values = pair_masks(predictions, protocol)

    def summary(members: NDArray[np.bool_]) -> Summary:
        points = int(counts[members].sum())
        return summarise(values[members], weights[members], points, resamples, seed)

    if training_images is None and predictions.training_images is not None:
        training_images = predictions.training_images.tolist()
    apart = None if training_images is None else leak_free_pairs(predictions, training_images)
    return Score(
        dataset=predictions.dataset,
        split=predictions.split,
        model=predictions.model,
        commit=predictions.commit,
        kind=predictions.kind,
        protocol=protocol,
        metrics=metrics,
        overall=summary(np.ones(len(predictions), dtype=np.bool_)),
        breakdowns={
            breakdown: {group: summary(members) for group, members in found.items()}
            for breakdown, found in groups(predictions).items()
        },
        training_images=None if training_images is None else len(set(training_images)),
        leak_free=summary(apart) if apart is not None and apart.any() else None,
        skipped=predictions.skipped,
        notes=tuple(_notes(predictions, protocol)),
        pair_values=values,
    )


def _check(predictions: Predictions, protocol: Protocol, alphas: Sequence[float]) -> None:
    if not len(predictions):
        raise InputError(f"no pair to score: the predictions hold none and skip {len(predictions.skipped)}")
    if not alphas or not all(np.isfinite(alpha) and alpha > 0 for alpha in alphas):
        raise InputError(f"alphas {list(alphas)}; wanted: one or more numbers above 0, e.g. 0.1")
    if len({f"{alpha:g}" for alpha in alphas}) < len(alphas):
        raise InputError(f"alphas {list(alphas)}; wanted: each once")
    if predictions.direction != protocol.direction:
        raise InputError(
            f"the predictions go {predictions.direction}, the protocol wants {protocol.direction}; "
            f"predict in that direction, or score with --set direction={predictions.direction}"
        )


def _notes(predictions: Predictions, protocol: Protocol) -> list[str]:
    notes = []
    unanswered = int((~np.isfinite(predictions.predicted_points)).any(axis=1).sum())
    if unanswered:
        effect = "count as wrong" if predictions.kind == "keypoints" else "are left out of their polygons"
        notes.append(f"{unanswered} points without a prediction {effect}")
    if predictions.kind == "keypoints":
        flat = int((threshold_lengths(predictions, protocol) <= 0).sum())
        if flat:
            notes.append(f"{flat} pairs have a threshold of 0 px: only an exact prediction is right there")
    return notes
