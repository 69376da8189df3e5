"""The best and the worst pairs as pictures: source points, predictions and truths on the photos."""

from __future__ import annotations

import base64
import io
from html import escape
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..images import read_image
from .metrics import correct_points, frame_scale, point_errors, threshold_lengths
from .predictions import PairPrediction, Predictions
from .protocol import Protocol
from .score import Score
from .svg import tag

Floats = NDArray[np.float64]

LONGEST = 360  # pixels of a photo's longer side in the report
QUALITY = 82  # of its JPEG
PHOTO_FOLDERS = ("", "JPEGImages", "101_ObjectCategories")  # where the official layouts keep photos


class Gallery(NamedTuple):
    """Pictures of pairs, and how many of their photos were looked for in vain."""

    best: list[str]
    worst: list[str]
    missing: int


class Judgement(NamedTuple):
    """Which points of a pair are right, and the distance that is allowed along x and y."""

    right: NDArray[np.bool_]  # (K,)
    allowed: Floats  # (2,), in pixels of the original target


def draw_gallery(
    predictions: Predictions, score: Score, alpha: float, root: Path | None = None, count: int = 6
) -> Gallery:
    """Draw up to ``count`` of the best and of the worst pairs.

    Parameters
    ----------
    alpha
        At which points are called right.
    root
        The data set's folder with the photos; without it, points are drawn on blank pictures.
    """
    order = rank(predictions, score)
    best, worst = order[: min(count, (len(order) + 1) // 2)], order[::-1][: min(count, len(order) // 2)]
    judgements = _judge(predictions, score.protocol, alpha) if predictions.kind == "keypoints" else {}
    photos = {}
    for index in (*best, *worst):
        pair = predictions.pair(index)
        for name in (pair.source_image, pair.target_image):
            photos[name] = None if root is None else _photo(root, name, pair.category)

    def draw(index: int) -> str:
        pair = predictions.pair(index)
        figures = zip(score.metrics, score.pair_values[index], strict=True)
        prefix = "@" if predictions.kind == "keypoints" else " "
        caption = " · ".join([pair.category, *(f"{prefix}{name}: {value:.0f}" for name, value in figures)])
        source = _panel(pair.source_size, photos[pair.source_image], _source_marks(pair, predictions.kind))
        marks = _target_marks(pair, judgements.get(index))
        target = _panel(pair.target_size, photos[pair.target_image], marks)
        names = tag("span", escape(pair.pair_id), class_="pair")
        return tag("figure", source, target, tag("figcaption", escape(caption), " ", names))

    missing = sum(photo is None for photo in photos.values()) if root is not None else 0
    return Gallery([draw(index) for index in best], [draw(index) for index in worst], missing)


def rank(predictions: Predictions, score: Score) -> list[int]:
    """Pairs from best to worst: by the mean error in threshold lengths, or by IoU."""
    if predictions.kind != "keypoints":
        badness = -score.pair_values[:, -1]
    else:
        first, counts = predictions.point_offsets[:-1], np.diff(predictions.point_offsets)
        errors = np.nan_to_num(point_errors(predictions, score.protocol), nan=np.inf)
        lengths = np.maximum(threshold_lengths(predictions, score.protocol), np.finfo(np.float64).tiny)
        badness = np.add.reduceat(errors, first) / counts / lengths
    return [int(index) for index in np.argsort(badness, kind="stable")]


def _judge(predictions: Predictions, protocol: Protocol, alpha: float) -> dict[int, Judgement]:
    right = correct_points(predictions, protocol, [alpha])[0]
    lengths = threshold_lengths(predictions, protocol)[:, None]
    allowed = alpha * lengths / frame_scale(predictions.target_sizes, protocol)  # (P, 2)
    split = np.split(right, predictions.point_offsets[1:-1])
    return {index: Judgement(*pair) for index, pair in enumerate(zip(split, allowed, strict=True))}


def _photo(root: Path, name: str, category: str) -> str | None:
    """The photo as a data address, small; None if it is not where the official layouts have it."""
    for folder in PHOTO_FOLDERS:
        for path in (root / folder / name, root / folder / category / name):
            if path.is_file():
                try:
                    photo = read_image(path)
                except InputError:
                    return None
                photo.thumbnail((LONGEST, LONGEST))
                content = io.BytesIO()
                photo.save(content, "JPEG", quality=QUALITY)
                return f"data:image/jpeg;base64,{base64.b64encode(content.getvalue()).decode('ascii')}"
    return None


def _panel(size: tuple[int, int], photo: str | None, marks: list[str]) -> str:
    """One photo with marks in its original pixels; the centre of its first pixel is (0, 0)."""
    width, height = size
    place = {"x": -0.5, "y": -0.5, "width": width, "height": height}
    if photo is None:
        ground = tag("rect", class_="blank", **place)
    else:
        ground = tag("image", href=photo, preserveAspectRatio="none", **place)
    unit = max(size) / LONGEST  # marks have the same size on every photo
    style = f"--unit: {unit:.4g}px"
    return tag("svg", ground, *marks, class_="photo", viewBox=f"-0.5 -0.5 {width} {height}", style=style)


def _source_marks(pair: PairPrediction, kind: str) -> list[str]:
    points = np.asarray(pair.source_points)
    if kind == "polygons":
        return [_outline(points, "truth")]
    unit = max(pair.source_size) / LONGEST
    return [mark for number, point in enumerate(points, 1) for mark in _dot(point, "source", unit, number)]


def _target_marks(pair: PairPrediction, judgement: Judgement | None) -> list[str]:
    predicted, truth = np.asarray(pair.predicted_points), np.asarray(pair.target_points)
    if judgement is None:
        answered = predicted[np.isfinite(predicted).all(axis=1)]
        return [_outline(answered, "right"), _outline(truth, "truth")]
    unit = max(pair.target_size) / LONGEST
    circles, lines, dots = [], [], []
    for number, (guess, true, right) in enumerate(zip(predicted, truth, judgement.right, strict=True), 1):
        look = "right" if right else "wrong"
        rx, ry = judgement.allowed
        circles.append(tag("ellipse", class_="allowed", cx=true[0], cy=true[1], rx=rx, ry=ry))
        if np.isfinite(guess).all():
            lines.append(tag("line", class_=f"off {look}", x1=guess[0], y1=guess[1], x2=true[0], y2=true[1]))
            dots += _dot(guess, look, unit, number)
        dots.append(tag("circle", class_="truth", cx=true[0], cy=true[1], r=4.5 * unit))
    return circles + lines + dots


def _dot(point: Floats, look: str, unit: float, number: int) -> list[str]:
    x, y = point
    label = tag("text", str(number), class_="count", x=x + 6 * unit, y=y - 5 * unit, font_size=11 * unit)
    return [tag("circle", class_=f"dot {look}", cx=x, cy=y, r=4 * unit), label]


def _outline(points: Floats, look: str) -> str:
    return tag("polygon", class_=f"outline {look}", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points))
