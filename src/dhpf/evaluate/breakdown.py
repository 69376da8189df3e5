"""Figures of a group of pairs with their confidence interval, and the groups worth looking at.

P pairs  M metrics  R resamples
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .layout import UNKNOWN_FLAG
from .predictions import Predictions

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

CONFIDENCE = 95  # percent
RESAMPLES = 1000

DEGREES = ("easy", "medium", "hard")
SIDES = ("none", "source", "target", "both")
FLAG_VALUES = {
    "viewpoint_variation": DEGREES,
    "scale_variation": DEGREES,
    "truncation": SIDES,
    "occlusion": SIDES,
}
POINT_BINS = ((1, 4), (5, 8), (9, 12), (13, 16), (17, None))  # keypoints a pair, both ends included


class Summary(NamedTuple):
    """The figures of a group of pairs, in percent, one for each metric."""

    pairs: int
    points: int
    values: tuple[float, ...]
    intervals: tuple[tuple[float, float], ...] | None  # of 95 %; None for a single pair


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
    found = {
        "category": {str(name): predictions.categories == name for name in np.unique(predictions.categories)}
    }
    if predictions.flags is not None and predictions.flag_names is not None:
        for name, column in zip(predictions.flag_names.tolist(), predictions.flags.T, strict=True):
            found[name] = {_flag_label(name, value): column == value for value in np.unique(column).tolist()}
    if predictions.kind == "keypoints":
        counts = np.diff(predictions.point_offsets)
        bins = {_bin_label(low, high): _within(counts, low, high) for low, high in POINT_BINS}
        found["points"] = {label: members for label, members in bins.items() if members.any()}
    return found


def _flag_label(name: str, value: int) -> str:
    if value == UNKNOWN_FLAG:
        return "unknown"
    labels = FLAG_VALUES.get(name, ())
    return labels[value] if value < len(labels) else str(value)


def _bin_label(low: int, high: int | None) -> str:
    return f"{low} or more" if high is None else f"{low} to {high}"


def _within(counts: NDArray[np.int64], low: int, high: int | None) -> Booleans:
    members: Booleans = counts >= low
    return members if high is None else members & (counts <= high)
