"""Figures of groups of pairs with their confidence intervals, and of points by their confidence.

P pairs  N points  M metrics  R resamples
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .predictions import UNKNOWN_FLAG, Predictions

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

CONFIDENCE = 95  # percent
RESAMPLES = 1000
BINS = 10  # of confidence

DEGREES = dict(enumerate(("easy", "medium", "hard")))
SIDES = dict(enumerate(("none", "source", "target", "both")))
FLAG_VALUES = {
    "viewpoint_variation": DEGREES,
    "scale_variation": DEGREES,
    "truncation": SIDES,
    "occlusion": SIDES,
}
POINT_BINS = ((1, 4), (5, 8), (9, 12), (13, 16), (17, np.inf))  # keypoints a pair, both ends included


class Summary(NamedTuple):
    """The figures of a group of pairs, in percent, one for each metric."""

    pairs: int
    points: int
    values: tuple[float, ...]
    intervals: tuple[tuple[float, float], ...] | None  # of 95 %; None for a single pair


class Bin(NamedTuple):
    """The points whose confidence is at least ``low`` and below ``high``; in the last bin, at most that."""

    low: float
    high: float
    points: int
    confidence: float  # their mean, in percent
    right: float  # of them, in percent


class Calibration(NamedTuple):
    """Whether points are right as often as they are confident."""

    bins: tuple[Bin, ...]  # those with points
    error: float  # expected calibration error: the mean |right - confidence| of the points' bins, in percent


def summarise(
    values: Floats, weights: Floats, points: int, resamples: int = RESAMPLES, seed: int = 0
) -> Summary:
    """Weighted mean over pairs, and the interval in which it falls when pairs are drawn anew.

    Parameters
    ----------
    values
        (P, M) each pair's own figures in percent.
    weights
        (P,) ones for the mean over pairs; the numbers of points for the mean over points.
    resamples, seed
        Of the bootstrap: every resample draws P pairs with replacement.
    """
    sums = np.column_stack([weights[:, None] * values, weights])  # (P, M + 1), the weights in the last column
    total = sums.sum(axis=0)
    intervals = None
    if len(values) > 1:
        random = np.random.default_rng(seed)
        drawn = np.empty((resamples, values.shape[1]))
        for resample in range(resamples):
            times = np.bincount(random.integers(len(values), size=len(values)), minlength=len(values))
            resampled = times.astype(np.float64) @ sums
            drawn[resample] = resampled[:-1] / resampled[-1]
        tail = (100 - CONFIDENCE) / 2
        low, high = np.percentile(drawn, [tail, 100 - tail], axis=0)
        intervals = tuple(zip(low.tolist(), high.tolist(), strict=True))
    return Summary(len(values), points, tuple((total[:-1] / total[-1]).tolist()), intervals)


def groups(predictions: Predictions) -> dict[str, dict[str, Booleans]]:
    """Which pairs (P,) belong to each group of each breakdown; groups without pairs are left out."""
    categories = predictions.categories
    found = {"category": {str(name): categories == name for name in np.unique(categories)}}
    if predictions.flags is not None and predictions.flag_names is not None:
        for name, column in zip(predictions.flag_names.tolist(), predictions.flags.T, strict=True):
            labels = {UNKNOWN_FLAG: "unknown", **FLAG_VALUES.get(name, {})}
            values = np.unique(column).tolist()
            found[name] = {labels.get(value, str(value)): column == value for value in values}
    if predictions.kind == "keypoints":
        counts = np.diff(predictions.point_offsets)
        bins = {_label(low, high): (counts >= low) & (counts <= high) for low, high in POINT_BINS}
        found["points"] = {label: members for label, members in bins.items() if members.any()}
    return found


def calibrate(confidences: Floats, right: Booleans) -> Calibration | None:
    """Compare the confidences (N,) with which points are right (N,); those without one (NaN) are left out."""
    known = ~np.isnan(confidences)
    confidences, right = confidences[known], right[known]
    if not len(confidences):
        return None
    number = np.minimum((confidences * BINS).astype(np.int64), BINS - 1)
    bins = []
    for index in np.unique(number).tolist():
        members = number == index
        means = (100 * float(values[members].mean()) for values in (confidences, right))
        bins.append(Bin(index / BINS, (index + 1) / BINS, int(members.sum()), *means))
    error = sum(each.points * abs(each.right - each.confidence) for each in bins) / len(confidences)
    return Calibration(tuple(bins), error)


def _label(low: float, high: float) -> str:
    return f"{low} to {high}" if high < np.inf else f"{low} or more"
