"""Distances, lengths and masks: what a protocol compares. Points are x, then y.

P pairs  K points of one pair  A alphas
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..data.masks import fill_polygon
from ..data.pairs import Photo
from ..errors import InputError
from ..grid import Size, resize_points
from .predictions import PairPrediction, Predictions
from .protocol import Protocol

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

PADDING = -1.0  # the published DHPF fills up its keypoint arrays with points at (-1, -1)


def threshold_length(threshold: str, size: ArrayLike, box: ArrayLike | None, points: ArrayLike) -> float:
    """The length that alpha multiplies, for one value of :attr:`Protocol.threshold`.

    It is in the pixels in which the target is described: its ``size`` (width, height), the ``box`` (x1, y1,
    x2, y2) of its object, and its true ``points`` (K, 2).
    """
    if threshold == "image":
        return float(np.max(size))
    if threshold == "box":
        if box is None:
            raise InputError("threshold=box needs the box of the target's object; try threshold=image")
        x1, y1, x2, y2 = np.asarray(box, np.float64)
        return float(max(x2 - x1, y2 - y1))
    corners = np.asarray(points, np.float64)
    if threshold == "legacy-padded":
        corners = np.vstack([corners, (PADDING, PADDING)])
    return float(np.ptp(corners, axis=0).max())


def within(distances: Floats, length: float, alphas: Sequence[float], compare: str = "<=") -> Booleans:
    """(A, K) which distances (K,) are within each alpha times the length; NaN, no prediction, never is."""
    limits = length * np.asarray(alphas, np.float64)[:, None]
    return distances <= limits if compare == "<=" else distances < limits


def photo_pck(photo: Photo, predicted: ArrayLike, protocol: Protocol, alphas: Sequence[float]) -> Floats:
    """(A,) PCK in percent of points that were predicted (K, 2) in an annotated image."""
    distances, length = _measure(photo.size, photo.box, photo.points, predicted, protocol)
    percent: Floats = 100 * within(distances, length, alphas, protocol.compare).mean(axis=1)
    return percent


def measure(pair: PairPrediction, protocol: Protocol) -> tuple[Floats, float]:
    """The distance (K,) of each predicted point to its truth, and the length that alpha multiplies.

    Both are in pixels of the protocol's frame, in which lengths are scaled along x and along y.
    """
    target = pair.target_size, pair.target_box, pair.target_points
    try:
        return _measure(*target, pair.predicted_points, protocol)
    except InputError as error:
        raise InputError(f"pair {pair.pair_id}: {error}") from None


def _measure(
    size: Size, box: ArrayLike | None, points: ArrayLike, predicted: ArrayLike, protocol: Protocol
) -> tuple[Floats, float]:
    """Distances and length in the frame; everything is given in pixels of the original image."""
    scale = np.ones(2) if protocol.side is None else protocol.side / np.array(size)
    scaled = None if box is None else np.asarray(box) * np.tile(scale, 2)
    truth = np.asarray(points)
    length = threshold_length(protocol.threshold, size * scale, scaled, truth * scale)
    return np.hypot(*((np.asarray(predicted) - truth) * scale).T), length


def pair_pck(predictions: Predictions, protocol: Protocol, alphas: Sequence[float]) -> Floats:
    """(P, A) PCK of each pair in percent."""
    measured = (measure(pair, protocol) for pair in predictions.pairs())
    return 100 * np.array([within(*each, alphas, protocol.compare).mean(axis=1) for each in measured])


def mask_scores(predicted: Booleans, truth: Booleans) -> tuple[float, float]:
    """LT-ACC (fraction of all pixels with the right label) and IoU of the object, both in percent.

    The IoU of two empty masks is 0: an object that covers no pixel cannot be found.
    """
    union = np.count_nonzero(predicted | truth)
    both = np.count_nonzero(predicted & truth)
    return 100 * float(np.mean(predicted == truth)), 100 * both / union if union else 0.0


def pair_masks(predictions: Predictions, protocol: Protocol) -> Floats:
    """(P, 2) LT-ACC and IoU of each pair's transferred polygon, as masks in the frame."""
    scores = []
    for pair in predictions.pairs():
        frame = pair.target_size if protocol.side is None else (protocol.side, protocol.side)
        predicted = np.asarray(pair.predicted_points)
        answered = predicted[~np.isnan(predicted).any(axis=1)]
        masks = (
            fill_polygon(resize_points(polygon, pair.target_size, frame), frame)
            for polygon in (answered, pair.target_points)
        )
        scores.append(mask_scores(*masks))
    return np.array(scores)
