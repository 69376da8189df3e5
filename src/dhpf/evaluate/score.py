"""A predictions file and a protocol -> figures."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .breakdown import RESAMPLES, Calibration, Summary, calibrate, groups, summarise
from .leakage import leak_free_pairs
from .metrics import measure, pair_masks, pair_pck, within
from .predictions import Predictions
from .protocol import ALPHAS, Protocol, alpha_names, protocol_for

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

MASK_METRICS = ("LT-ACC", "IoU")
ALPHA = 0.1  # at which single points are called right: the one that the literature quotes first


@dataclass(frozen=True, eq=False)
class Score:
    """All figures of one predictions file under one protocol, in percent."""

    predictions: Predictions
    protocol: Protocol
    metrics: tuple[str, ...]  # the alphas as written, or the names of the mask metrics
    pair_values: Floats  # (P, M) of each pair
    overall: Summary
    breakdowns: Mapping[str, Mapping[str, Summary]]  # by category, flags, number of points
    training_images: int | None  # how many the model names; None: not stated
    leak_free: Summary | None  # of the pairs that share no image with them; None: not stated, or no pair
    calibration: Calibration | None  # at ALPHA; None: no keypoints, or no confidences
    notes: tuple[str, ...]  # what else a reader must know

    @property
    def fingerprint(self) -> str:
        """The protocol in one line."""
        return self.protocol.fingerprint(self.predictions.kind)

    @property
    def category_mean(self) -> tuple[float, ...]:
        """The mean over categories of their figures: every category counts the same."""
        values = [summary.values for summary in self.breakdowns["category"].values()]
        return tuple(np.mean(values, axis=0).tolist())


def pair_values(
    predictions: Predictions, protocol: Protocol, alphas: Sequence[float]
) -> tuple[tuple[str, ...], Floats, Floats]:
    """The metrics, the figures of each pair (P, M) in percent, and its weight in their mean (P,)."""
    if not len(predictions):
        raise InputError(f"no pair to score: the predictions hold none and skip {len(predictions.skipped)}")
    names = alpha_names(alphas)
    if predictions.direction != protocol.direction:
        raise InputError(
            f"the predictions go {predictions.direction}, the protocol wants {protocol.direction}; "
            f"predict in that direction, or score with --set direction={predictions.direction}"
        )
    weights = np.ones(len(predictions))
    if predictions.kind == "polygons":
        return MASK_METRICS, pair_masks(predictions, protocol), weights
    if protocol.average == "point":
        weights = np.diff(predictions.point_offsets).astype(np.float64)
    return names, pair_pck(predictions, protocol, alphas), weights


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
    metrics, values, weights = pair_values(predictions, protocol, alphas)
    points = np.diff(predictions.point_offsets)

    def summary(members: Booleans) -> Summary:
        return summarise(values[members], weights[members], int(points[members].sum()), resamples, seed)

    if training_images is None and predictions.training_images is not None:
        training_images = predictions.training_images.tolist()
    apart = None if training_images is None else leak_free_pairs(predictions, training_images)
    calibration = None
    if predictions.confidences is not None and predictions.kind == "keypoints":
        right = [
            within(*measure(pair, protocol), [ALPHA], protocol.compare)[0] for pair in predictions.pairs()
        ]
        calibration = calibrate(predictions.confidences, np.concatenate(right))
    return Score(
        predictions=predictions,
        protocol=protocol,
        metrics=metrics,
        pair_values=values,
        overall=summary(np.ones(len(predictions), dtype=np.bool_)),
        breakdowns={
            breakdown: {group: summary(members) for group, members in found.items()}
            for breakdown, found in groups(predictions).items()
        },
        training_images=None if training_images is None else len(set(training_images)),
        leak_free=summary(apart) if apart is not None and apart.any() else None,
        calibration=calibration,
        notes=tuple(_notes(predictions, protocol)),
    )


def _notes(predictions: Predictions, protocol: Protocol) -> list[str]:
    notes = []
    taken, whole = len(predictions) + len(predictions.skipped), predictions.split_pairs
    if whole is not None and taken < whole:
        notes.append(f"{taken} of {whole} pairs of the split")
    sizes = np.repeat(predictions.source_sizes, np.diff(predictions.point_offsets), axis=0)
    outside = (predictions.source_points < -0.5) | (predictions.source_points > sizes)
    if outside.any():  # annotators left a few
        notes.append(f"{outside.any(axis=1).sum()} source points lie outside their image")
    unanswered = int(np.isnan(predictions.predicted_points).any(axis=1).sum())
    if unanswered:
        effect = "count as wrong" if predictions.kind == "keypoints" else "are left out of their polygons"
        notes.append(f"{unanswered} points without a prediction {effect}")
    if predictions.kind == "keypoints":
        flat = sum(measure(pair, protocol)[1] <= 0 for pair in predictions.pairs())
        if flat:
            notes.append(f"{flat} pairs have a threshold of 0 px: only an exact prediction is right there")
    return notes
