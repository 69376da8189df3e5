"""The predictions of one method on one split: everything that scoring needs, in one file.

``docs/protocols.md`` describes the file array by array. The class has the same fields under the same
names: pairs one after the other, points of all pairs in one array, and where each pair's points begin.

P pairs  N points of all pairs  M true points of all pairs  F flags  L layers  T training images  S skipped
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InputError
from ..files import write_atomically
from ..images import MOST_PIXELS
from .protocol import DIRECTIONS
from .storage import ArrayLayout, check_names, fit, pack_arrays, read_arrays

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
Texts = NDArray[np.str_]

FORMAT, VERSION = "dhpf-predictions", 2
KINDS = ("keypoints", "polygons")
UNKNOWN_FLAG = -1


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
    confidences: ArrayLike | None = None  # (K,) of the predicted points, in [0, 1]

    def check(self, kind: str) -> None:
        """Raise unless there are as many points of each; once joined, a surplus would hide a lack."""
        source, predicted = len(_points(self.source_points)), len(_points(self.predicted_points))
        target = len(_points(self.target_points)) if kind == "keypoints" else source
        if not source == predicted == target:
            counts = f"{source} source, {predicted} predicted and {target} target points"
            raise InputError(f"pair {self.pair_id} has {counts}; wanted: as many of each")


@dataclass(frozen=True, eq=False)
class Predictions:
    """All pairs of a split, as stored. Build it with :meth:`of_pairs` or :meth:`load`.

    With each field stand the type and the shape of its array; letters are lengths that arrays share.
    """

    dataset: Annotated[str, "text"]
    split: Annotated[str, "text"]
    model: Annotated[str, "text"]
    commit: Annotated[str, "text"]
    pair_ids: Annotated[Texts, "text", "P"]
    categories: Annotated[Texts, "text", "P"]
    source_images: Annotated[Texts, "text", "P"]
    target_images: Annotated[Texts, "text", "P"]
    source_sizes: Annotated[Integers, "integer", "P", 2]  # width, height
    target_sizes: Annotated[Integers, "integer", "P", 2]
    point_offsets: Annotated[Integers, "integer", "P + 1"]  # pair i has rows offsets[i] to offsets[i + 1]
    source_points: Annotated[Floats, "number", "N", 2]
    predicted_points: Annotated[Floats, "number or NaN", "N", 2]
    target_points: Annotated[Floats, "number", "M", 2]  # M = N for keypoints
    kind: Annotated[str, "text"] = KINDS[0]
    direction: Annotated[str, "text"] = DIRECTIONS[0]
    config: Annotated[str | None, "text"] = None  # of the model: a JSON object
    split_pairs: Annotated[int | None, "integer"] = None  # in the whole split, of which these may be some
    input_size: Annotated[Integers | None, "integer", 2] = None  # width, height of the network's input
    confidences: Annotated[Floats | None, "number or NaN", "N"] = None  # of the predicted points, in [0, 1]
    target_offsets: Annotated[Integers | None, "integer", "P + 1"] = None  # into target_points, for polygons
    target_boxes: Annotated[Floats | None, "number or NaN", "P", 4] = None  # NaN where a pair has none
    flag_names: Annotated[Texts | None, "text", "F"] = None
    flags: Annotated[Integers | None, "integer", "P", "F"] = None  # -1 where unknown
    layers: Annotated[Booleans | None, "boolean", "P", "L"] = None
    gate_probabilities: Annotated[Floats | None, "number", "P", "L"] = None
    training_images: Annotated[Texts | None, "text", "T"] = None  # None: not stated; empty: it saw no image
    skipped_ids: Annotated[Texts | None, "text", "S"] = None  # pairs that could not be predicted
    skipped_reasons: Annotated[Texts | None, "text", "S"] = None

    def __post_init__(self) -> None:
        given = {name: value for name in LAYOUT if (value := getattr(self, name)) is not None}
        for name, value in fit(given, LAYOUT).items():
            object.__setattr__(self, name, value)
        _check(self)

    def __len__(self) -> int:
        return len(self.pair_ids)

    @staticmethod
    def of_pairs(
        pairs: Sequence[PairPrediction],
        *,
        kind: str = KINDS[0],
        training_images: Iterable[str] | None = None,
        skipped: Sequence[tuple[str, str]] = (),
        **about: Any,
    ) -> Predictions:
        """Collect single pairs.

        Parameters
        ----------
        training_images
            Names of the images that the method was trained on; None if that is not known.
        skipped
            (pair id, reason) of every pair that could not be predicted.
        about
            Fields of :class:`Predictions` about all pairs: ``dataset``, ``split``, ``model`` and ``commit``,
            and if known ``direction``, ``input_size``, ``config`` and ``split_pairs``.
        """
        for pair in pairs:
            pair.check(kind)
        source, predicted, target = (
            [_points(getattr(pair, name)) for pair in pairs]
            for name in ("source_points", "predicted_points", "target_points")
        )
        boxes = [np.full(4, np.nan) if pair.target_box is None else pair.target_box for pair in pairs]
        names = sorted({name for pair in pairs for name in pair.flags})
        flags = [[pair.flags.get(name, UNKNOWN_FLAG) for name in names] for pair in pairs]
        arrays: dict[str, Any] = {
            "pair_ids": [pair.pair_id for pair in pairs],
            "categories": [pair.category for pair in pairs],
            "source_images": [pair.source_image for pair in pairs],
            "target_images": [pair.target_image for pair in pairs],
            "source_sizes": [pair.source_size for pair in pairs],
            "target_sizes": [pair.target_size for pair in pairs],
            "point_offsets": np.cumsum([0, *map(len, source)]),
            "source_points": np.concatenate([np.empty((0, 2)), *source]),
            "predicted_points": np.concatenate([np.empty((0, 2)), *predicted]),
            "target_points": np.concatenate([np.empty((0, 2)), *target]),
            "confidences": _of_all(pairs, "confidences", np.concatenate),
            "target_offsets": np.cumsum([0, *map(len, target)]) if kind == "polygons" else None,
            "target_boxes": boxes if any(pair.target_box is not None for pair in pairs) else None,
            "flag_names": names or None,
            "flags": flags if names else None,
            "layers": _of_all(pairs, "layers", np.stack),
            "gate_probabilities": _of_all(pairs, "gate_probabilities", np.stack),
            "training_images": None if training_images is None else sorted(set(training_images)),
            "skipped_ids": [name for name, _ in skipped],
            "skipped_reasons": [reason for _, reason in skipped],
        }
        return Predictions(kind=kind, **about, **arrays)

    def pair(self, index: int) -> PairPrediction:
        """One pair; the inverse of :meth:`of_pairs`."""
        rows = slice(*self.point_offsets[index : index + 2])
        true_rows = rows if self.target_offsets is None else slice(*self.target_offsets[index : index + 2])

        def own(array: NDArray[Any] | None) -> Any:
            return None if array is None else array[index]

        box = own(self.target_boxes)
        flags: dict[str, int] = {}
        if self.flags is not None and self.flag_names is not None:
            named = zip(self.flag_names.tolist(), self.flags[index].tolist(), strict=True)
            flags = {name: value for name, value in named if value != UNKNOWN_FLAG}
        return PairPrediction(
            pair_id=str(self.pair_ids[index]),
            category=str(self.categories[index]),
            source_image=str(self.source_images[index]),
            target_image=str(self.target_images[index]),
            source_size=tuple(self.source_sizes[index].tolist()),
            target_size=tuple(self.target_sizes[index].tolist()),
            source_points=self.source_points[rows],
            predicted_points=self.predicted_points[rows],
            target_points=self.target_points[true_rows],
            target_box=None if box is None or np.isnan(box).any() else box,
            flags=flags,
            layers=own(self.layers),
            gate_probabilities=own(self.gate_probabilities),
            confidences=None if self.confidences is None else self.confidences[rows],
        )

    def pairs(self) -> Iterator[PairPrediction]:
        """All pairs, one after the other."""
        return map(self.pair, range(len(self)))

    @property
    def skipped(self) -> tuple[tuple[str, str], ...]:
        """(pair id, reason) of every pair that could not be predicted."""
        if self.skipped_ids is None or self.skipped_reasons is None:
            return ()
        return tuple(zip(self.skipped_ids.tolist(), self.skipped_reasons.tolist(), strict=True))

    def save(self, path: str | Path) -> Path:
        """Write the file, whole or not at all; the same predictions always give the same bytes."""
        stored = {name: np.asarray(value) for name in LAYOUT if (value := getattr(self, name)) is not None}
        about = {"format": np.array(FORMAT), "version": np.array(VERSION)}
        write_atomically(Path(path), pack_arrays({**about, **stored}))
        return Path(path)

    @staticmethod
    def load(path: str | Path) -> Predictions:
        """Read and check a file; whatever is wrong with it is one InputError that names it."""
        arrays = read_arrays(Path(path))
        if str(arrays.pop("format", "")) != FORMAT:
            raise InputError(f"{path}: an .npz file, but not of predictions (no format = {FORMAT!r} in it)")
        version = str(arrays.pop("version", None))
        if version not in ("1", "2"):  # version 1 had no confidences, config and split_pairs
            raise InputError(f"{path}: predictions of version {version[:20]!r}; this dhpf reads 1 and 2")
        try:
            check_names(arrays, LAYOUT)
            return Predictions(**arrays)  # type: ignore[arg-type]  # converted and checked on the way
        except InputError as error:
            raise InputError(f"{path}: {error}") from None


LAYOUT = {
    name: ArrayLayout(
        type=hint.__metadata__[0],
        shape=hint.__metadata__[1:],
        required=not hasattr(Predictions, name),  # there is no default
    )
    for name, hint in get_type_hints(Predictions, include_extras=True).items()
}


def _points(points: ArrayLike) -> Floats:
    return np.asarray(points, dtype=np.float64).reshape(-1, 2)


def _of_all(pairs: Sequence[PairPrediction], name: str, join: Any) -> Any:
    """The pairs' rows in one array; None where no pair has any."""
    rows = [np.asarray(row) for pair in pairs if (row := getattr(pair, name)) is not None]
    lengths = {len(row) for row in rows} if join is np.stack else set()
    if 0 < len(rows) < len(pairs) or len(lengths) > 1:
        raise InputError(f"{name}: give the same number for every pair, or none")
    return join(rows) if rows else None


def _check(given: Predictions) -> None:
    """Raise an InputError unless the arrays belong together."""
    for name, choices in (("kind", KINDS), ("direction", DIRECTIONS)):
        if getattr(given, name) not in choices:
            raise InputError(f"{name} is {getattr(given, name)!r}; wanted: {' or '.join(choices)}")
    polygons = given.kind == "polygons"
    if polygons != (given.target_offsets is not None):
        raise InputError("target_offsets say where true polygons begin: polygons need them, keypoints do not")
    if not polygons and len(given.target_points) != len(given.source_points):
        counts = f"{len(given.target_points)} target and {len(given.source_points)} source points"
        raise InputError(f"{counts}; keypoints need as many of each")
    for name, points in (("point_offsets", given.source_points), ("target_offsets", given.target_points)):
        if (offsets := getattr(given, name)) is not None:
            steps = np.diff(offsets)
            if len(steps) != len(given) or (steps < 0).any() or [offsets[0], offsets[-1]] != [0, len(points)]:
                wanted = f"{len(given) + 1} numbers that rise from 0 to the number of points, {len(points)}"
                raise InputError(f"{name} must be P + 1 = {wanted}")
            for pair in given.pair_ids[steps == 0]:
                raise InputError(f"pair {pair} has no points ({name}); list it in skipped_ids instead")
    for one, other in (("flag_names", "flags"), ("skipped_ids", "skipped_reasons")):
        if (getattr(given, one) is None) != (getattr(given, other) is None):
            raise InputError(f"{one} and {other} go together; give both or none")
    ids, times = np.unique(given.pair_ids, return_counts=True)
    for pair in ids[times > 1]:
        raise InputError(f"pair {pair} occurs {times.max()} times; pair_ids must differ")
    for pair in np.intersect1d(ids, [] if given.skipped_ids is None else given.skipped_ids):
        raise InputError(f"pair {pair} is both predicted and skipped")
    for sizes in (given.source_sizes, given.target_sizes):
        if ((sizes < 1) | (sizes > MOST_PIXELS)).any() or (sizes.prod(axis=1) > MOST_PIXELS).any():
            raise InputError(f"an image size is not from 1 to {MOST_PIXELS:,} pixels; wanted: width, height")
    if given.confidences is not None and ((given.confidences < 0) | (given.confidences > 1)).any():
        raise InputError("confidences must be from 0 to 1, or NaN")
    if given.config is not None:
        _check_config(given.config)


def _check_config(config: str) -> None:
    try:
        content = json.loads(config)
        json.dumps(content, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):  # NaN and lone surrogates among them
        content = None
    if not isinstance(content, dict):
        raise InputError("config must be a JSON object, as text")
