"""The predictions of one method on one split: everything that scoring needs, in one file.

``docs/protocols.md`` describes the file array by array. The class has the same fields under the same
names: pairs one after the other, points of all pairs in one array, and where each pair's points begin.

P pairs  N points of all pairs  M vertices of all true polygons  F flags  L layers  T training images
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InputError
from .layout import FORMAT, KINDS, LAYOUT, UNKNOWN_FLAG, VERSION, check, check_names, convert
from .protocol import DIRECTIONS
from .storage import pack_arrays, read_arrays, write_file

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
Texts = NDArray[np.str_]


@dataclass(frozen=True)
class PairPrediction:
    """One pair of images and where a method put the points of the first in the second.

    All points are (K, 2), x then y, in pixels of the original image. For keypoints, row k of all three
    arrays is the same keypoint. For polygons, ``source_points`` are the vertices of the source mask,
    ``predicted_points`` where they land, and ``target_points`` the true mask's own vertices, of any number.
    """

    pair_id: str
    category: str
    source_image: str  # as the data set's list names it
    target_image: str
    source_size: tuple[int, int]  # width, height
    target_size: tuple[int, int]
    source_points: ArrayLike
    predicted_points: ArrayLike  # NaN where the method gives no answer: counts as wrong
    target_points: ArrayLike
    target_box: ArrayLike | None = None  # x1, y1, x2, y2
    flags: Mapping[str, int] = field(default_factory=dict)  # SPair-71k's variation flags
    layers: ArrayLike | None = None  # (L,) true where the layer was on
    gate_probabilities: ArrayLike | None = None  # (L,)


@dataclass(frozen=True, eq=False)
class Predictions:
    """All pairs of a split, as stored. Build it with :meth:`of_pairs` or :meth:`load`."""

    dataset: str
    split: str
    model: str
    commit: str
    pair_ids: Texts  # (P,)
    categories: Texts  # (P,)
    source_images: Texts  # (P,)
    target_images: Texts  # (P,)
    source_sizes: Integers  # (P, 2) width, height
    target_sizes: Integers  # (P, 2)
    point_offsets: Integers  # (P + 1,) points of pair i are rows offsets[i] to offsets[i + 1]
    source_points: Floats  # (N, 2)
    predicted_points: Floats  # (N, 2)
    target_points: Floats  # (N, 2), or (M, 2) for polygons
    kind: str = KINDS[0]
    direction: str = DIRECTIONS[0]
    input_size: Integers | None = None  # (2,) width, height of the network's input
    target_offsets: Integers | None = None  # (P + 1,) into target_points, for polygons
    target_boxes: Floats | None = None  # (P, 4), NaN where a pair has none
    flag_names: Texts | None = None  # (F,)
    flags: Integers | None = None  # (P, F), -1 where unknown
    layers: Booleans | None = None  # (P, L)
    gate_probabilities: Floats | None = None  # (P, L)
    training_images: Texts | None = None  # (T,); None: not stated; empty: the method saw no image
    skipped_ids: Texts | None = None  # (S,) pairs of the split that were not predicted
    skipped_reasons: Texts | None = None  # (S,)

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in LAYOUT}
        values = {name: None if value is None else convert(name, value) for name, value in given.items()}
        check(values)
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.pair_ids)

    @staticmethod
    def of_pairs(
        pairs: Sequence[PairPrediction],
        *,
        dataset: str,
        split: str,
        model: str,
        commit: str,
        kind: str = KINDS[0],
        direction: str = DIRECTIONS[0],
        input_size: tuple[int, int] | None = None,
        training_images: Iterable[str] | None = None,
        skipped: Sequence[tuple[str, str]] = (),
    ) -> Predictions:
        """Collect single pairs.

        Parameters
        ----------
        direction
            Whether points go from the first image of the data set's list to the second
            (``source-to-target``) or back. ``source`` and ``target`` of a pair always mean: from, to.
        input_size
            Width and height of the network's input in pixels.
        training_images
            Names of the images that the method was trained on; None if that is not known.
        skipped
            (pair id, reason) of every pair of the split that is not in ``pairs``.
        """
        for pair in pairs:
            _check_rows(pair, kind)
        flag_names = sorted({name for pair in pairs for name in pair.flags})
        flags = [[pair.flags.get(name, UNKNOWN_FLAG) for name in flag_names] for pair in pairs]
        source_points = [_points(pair.source_points) for pair in pairs]
        target_points = [_points(pair.target_points) for pair in pairs]
        boxes = [
            np.full(4, np.nan) if pair.target_box is None else np.asarray(pair.target_box) for pair in pairs
        ]
        return Predictions(
            dataset=dataset,
            split=split,
            model=model,
            commit=commit,
            kind=kind,
            direction=direction,
            input_size=None if input_size is None else np.array(input_size),
            pair_ids=np.array([pair.pair_id for pair in pairs], dtype=np.str_),
            categories=np.array([pair.category for pair in pairs], dtype=np.str_),
            source_images=np.array([pair.source_image for pair in pairs], dtype=np.str_),
            target_images=np.array([pair.target_image for pair in pairs], dtype=np.str_),
            source_sizes=np.array([pair.source_size for pair in pairs], dtype=np.int64).reshape(-1, 2),
            target_sizes=np.array([pair.target_size for pair in pairs], dtype=np.int64).reshape(-1, 2),
            point_offsets=_offsets(source_points),
            source_points=_joined(source_points),
            predicted_points=_joined([_points(pair.predicted_points) for pair in pairs]),
            target_points=_joined(target_points),
            target_offsets=_offsets(target_points) if kind == "polygons" else None,
            target_boxes=np.stack(boxes) if any(pair.target_box is not None for pair in pairs) else None,
            flag_names=np.array(flag_names, dtype=np.str_) if flag_names else None,
            flags=np.array(flags, dtype=np.int64) if flag_names else None,
            layers=_stacked([pair.layers for pair in pairs]),
            gate_probabilities=_stacked([pair.gate_probabilities for pair in pairs]),
            training_images=(
                None if training_images is None else np.array(sorted(set(training_images)), dtype=np.str_)
            ),
            skipped_ids=np.array([name for name, _ in skipped], dtype=np.str_),
            skipped_reasons=np.array([reason for _, reason in skipped], dtype=np.str_),
        )

    def pair(self, index: int) -> PairPrediction:
        """One pair; the inverse of :meth:`of_pairs`."""
        rows = slice(self.point_offsets[index], self.point_offsets[index + 1])
        box = None if self.target_boxes is None else self.target_boxes[index]
        flags: dict[str, int] = {}
        if self.flags is not None and self.flag_names is not None:
            named = zip(self.flag_names.tolist(), self.flags[index].tolist(), strict=True)
            flags = {name: value for name, value in named if value != UNKNOWN_FLAG}
        return PairPrediction(
            pair_id=str(self.pair_ids[index]),
            category=str(self.categories[index]),
            source_image=str(self.source_images[index]),
            target_image=str(self.target_images[index]),
            source_size=(int(self.source_sizes[index, 0]), int(self.source_sizes[index, 1])),
            target_size=(int(self.target_sizes[index, 0]), int(self.target_sizes[index, 1])),
            source_points=self.source_points[rows],
            predicted_points=self.predicted_points[rows],
            target_points=self.target_points[self.truth_offsets[index] : self.truth_offsets[index + 1]],
            target_box=None if box is None or np.isnan(box).any() else box,
            flags=flags,
            layers=None if self.layers is None else self.layers[index],
            gate_probabilities=None if self.gate_probabilities is None else self.gate_probabilities[index],
        )

    @property
    def truth_offsets(self) -> Integers:
        """(P + 1,) where each pair's ``target_points`` begin."""
        return self.point_offsets if self.target_offsets is None else self.target_offsets

    @property
    def skipped(self) -> tuple[tuple[str, str], ...]:
        """(pair id, reason) of every pair that was not predicted."""
        if self.skipped_ids is None or self.skipped_reasons is None:
            return ()
        return tuple(zip(self.skipped_ids.tolist(), self.skipped_reasons.tolist(), strict=True))

    def save(self, path: str | Path) -> Path:
        """Write the file, whole or not at all; the same predictions always give the same bytes."""
        arrays: dict[str, NDArray[Any]] = {"format": np.array(FORMAT), "version": np.array(VERSION)}
        for name in LAYOUT:
            value = getattr(self, name)
            if value is not None:
                arrays[name] = np.asarray(value)
        return write_file(Path(path), pack_arrays(arrays))

    @staticmethod
    def load(path: str | Path) -> Predictions:
        """Read and check a file; whatever is wrong with it is one InputError that names it."""
        path = Path(path)
        arrays = read_arrays(path)
        if "format" not in arrays or str(arrays.pop("format")) != FORMAT:
            raise InputError(f"{path}: an .npz file, but not of predictions (no format = {FORMAT!r} in it)")
        version = arrays.pop("version", None)
        if version is None or str(version) != str(VERSION):
            raise InputError(
                f"{path}: predictions file of version {version}; this dhpf reads version {VERSION}"
            )
        try:
            check_names(arrays)
            return Predictions(**arrays)  # type: ignore[arg-type]  # converted and checked on the way
        except InputError as error:
            raise InputError(f"{path}: {error}") from None


def _points(points: ArrayLike) -> Floats:
    return np.asarray(points, dtype=np.float64).reshape(-1, 2)


def _check_rows(pair: PairPrediction, kind: str) -> None:
    """Point counts of one pair; once joined, a surplus here would hide a lack there."""
    source, predicted = len(_points(pair.source_points)), len(_points(pair.predicted_points))
    target = len(_points(pair.target_points)) if kind == "keypoints" else source
    if not source == predicted == target:
        counts = f"{source} source, {predicted} predicted and {target} target points"
        raise InputError(f"pair {pair.pair_id} has {counts}; wanted: as many of each")


def _joined(points: Sequence[Floats]) -> Floats:
    return np.concatenate([np.empty((0, 2)), *points])


def _offsets(points: Sequence[Floats]) -> Integers:
    return np.cumsum([0, *map(len, points)], dtype=np.int64)


def _stacked(rows: Sequence[ArrayLike | None]) -> NDArray[Any] | None:
    """(P, L); None where no pair has it. That some have it and some not is a fault of the caller."""
    given = [np.asarray(row) for row in rows if row is not None]
    if given and (len(given) < len(rows) or len({len(row) for row in given}) > 1):
        raise InputError("layers and gate_probabilities: give the same number for every pair, or none")
    return np.stack(given) if given else None
