"""Distances, lengths and masks: what a protocol compares. Points are x, then y.

P pairs  N points of all pairs  A alphas
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..data.masks import fill_polygon
from ..errors import InputError
from .predictions import Predictions
from .protocol import Protocol

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

PADDING = -1.0  # the published DHPF fills up its keypoint arrays with points at (-1, -1)


def threshold_length(threshold: str, size: ArrayLike, box: ArrayLike | None, points: ArrayLike) -> float:
    """The length that alpha multiplies, in pixels of the frame that all of these are given in.

    Parameters
    ----------
    threshold
        A value of :attr:`Protocol.threshold`.
    size, box, points
        Of the target: width and height; x1, y1, x2, y2 of its object; the true points, (K, 2).
    """
    if threshold == "image":
        return float(np.max(size))
    if threshold == "box":
        if box is None:
            raise InputError("threshold=box needs the box of the target's object; try threshold=image")
        x1, y1, x2, y2 = np.asarray(box, np.float64)
        return float(max(x2 - x1, y2 - y1))
    points = np.asarray(points, np.float64)
    if threshold == "legacy-padded":
        points = np.vstack([points, (PADDING, PADDING)])
    return float(np.ptp(points, axis=0).max())


def within(
    distances: ArrayLike, lengths: ArrayLike, alphas: Sequence[float], compare: str = "<="
) -> Booleans:
    """(A, N) whether each distance is within each alpha times its length; one that is NaN never is."""
    limits = np.multiply.outer(np.asarray(alphas, np.float64), np.atleast_1d(lengths))
    correct: Booleans = distances <= limits if compare == "<=" else distances < limits
    return correct


def pck(
    predicted: ArrayLike, truth: ArrayLike, length: float, alphas: Sequence[float], compare: str = "<="
) -> Floats:
    """(A,) PCK of one pair in percent: its points (K, 2) that land within alpha times the length."""
    offset = np.asarray(predicted, np.float64) - np.asarray(truth, np.float64)
    right: Floats = 100 * within(np.hypot(*offset.T), length, alphas, compare).mean(axis=1)
    return right


def frame_scale(sizes: NDArray[np.int64], protocol: Protocol) -> Floats:
    """(P, 2): factors along x and y from original pixels of images of these sizes to the frame."""
    if protocol.side is None:
        return np.ones(sizes.shape)
    return protocol.side / sizes


def point_errors(predictions: Predictions, protocol: Protocol) -> Floats:
    """(N,) distance of every predicted point to its truth, in pixels of the frame; NaN without answer."""
    counts = np.diff(predictions.point_offsets)
    scale = np.repeat(frame_scale(predictions.target_sizes, protocol), counts, axis=0)
    offset = (predictions.predicted_points - predictions.target_points) * scale
    distances: Floats = np.hypot(offset[:, 0], offset[:, 1])
    return distances


def threshold_lengths(predictions: Predictions, protocol: Protocol) -> Floats:
    """(P,) the length that alpha multiplies, in pixels of the frame."""
    scale = frame_scale(predictions.target_sizes, protocol)  # (P, 2)
    if protocol.threshold == "image":
        sides = predictions.target_sizes * scale
    elif protocol.threshold == "box":
        boxes = _boxes(predictions)
        sides = (boxes[:, 2:] - boxes[:, :2]) * scale
    else:
        first = predictions.point_offsets[:-1]
        lowest = np.minimum.reduceat(predictions.target_points, first, axis=0) * scale
        highest = np.maximum.reduceat(predictions.target_points, first, axis=0) * scale
        if protocol.threshold == "legacy-padded":
            lowest, highest = np.minimum(lowest, PADDING), np.maximum(highest, PADDING)
        sides = highest - lowest
    lengths: Floats = sides.max(axis=1)
    return lengths


def correct_points(predictions: Predictions, protocol: Protocol, alphas: Sequence[float]) -> Booleans:
    """(A, N) whether each point is right at each alpha."""
    errors = point_errors(predictions, protocol)
    lengths = np.repeat(threshold_lengths(predictions, protocol), np.diff(predictions.point_offsets))
    limits = np.multiply.outer(np.asarray(alphas, dtype=np.float64), lengths)
    correct: Booleans = errors <= limits if protocol.compare == "<=" else errors < limits
    return correct


def pair_pck(predictions: Predictions, protocol: Protocol, alphas: Sequence[float]) -> Floats:
    """(P, A) share of each pair's points that are right, in percent."""
    correct = correct_points(predictions, protocol, alphas).astype(np.float64)
    right = np.add.reduceat(correct, predictions.point_offsets[:-1], axis=1)  # (A, P)
    shares: Floats = 100 * right / np.diff(predictions.point_offsets)
    return shares.T


def _boxes(predictions: Predictions) -> Floats:
    boxes = predictions.target_boxes
    if boxes is None:
        raise InputError("threshold=box needs target_boxes, which the predictions lack; try threshold=image")
    absent = np.flatnonzero(np.isnan(boxes).any(axis=1))
    if len(absent):
        first = predictions.pair_ids[absent[0]]
        raise InputError(
            f"threshold=box needs the target box of every pair; {len(absent)} have none, first {first}"
        )
    return boxes


def mask_scores(predicted: Booleans, truth: Booleans) -> tuple[float, float]:
    """LT-ACC (share of all pixels with the right label) and IoU of the object, both in percent.

    The IoU of two empty masks is 0: an object that covers no pixel cannot be found.
    """
    union = np.count_nonzero(predicted | truth)
    both = np.count_nonzero(predicted & truth)
    return 100 * float(np.mean(predicted == truth)), 100 * both / union if union else 0.0


def pair_masks(predictions: Predictions, protocol: Protocol) -> Floats:
    """(P, 2) LT-ACC and IoU of each pair's transferred polygon, as masks in the frame."""
    scores = np.empty((len(predictions), 2))
    scales = frame_scale(predictions.target_sizes, protocol)
    for index, scale in enumerate(scales):
        pair = predictions.pair(index)
        width, height = (round(side * by) for side, by in zip(pair.target_size, scale, strict=True))
        predicted = np.asarray(pair.predicted_points) * scale
        answered = predicted[np.isfinite(predicted).all(axis=1)]
        truth = fill_polygon(np.asarray(pair.target_points) * scale, (width, height))
        scores[index] = mask_scores(fill_polygon(answered, (width, height)), truth)
    return scores
