"""What a predictions file holds: every array's name, type and shape, and the rules between them.

P pairs  O = P + 1  N points of all pairs  M true points of all pairs  F flags  L layers  T training images
S skipped pairs
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .protocol import DIRECTIONS

FORMAT = "dhpf-predictions"
VERSION = 1
KINDS = ("keypoints", "polygons")
UNKNOWN_FLAG = -1


class ArrayKind(NamedTuple):
    """Type and shape of one array; letters of the shape are lengths that arrays share."""

    type: str  # text, integer, number or boolean
    shape: tuple[str | int, ...]
    required: bool = True


TEXT = ArrayKind("text", ())
OFFSETS = ArrayKind("integer", ("O",))
PAIR_TEXT = ArrayKind("text", ("P",))
PAIR_SIZE = ArrayKind("integer", ("P", 2))
POINTS = ArrayKind("number", ("N", 2))

LAYOUT: dict[str, ArrayKind] = {
    "dataset": TEXT,
    "split": TEXT,
    "model": TEXT,
    "commit": TEXT,
    "pair_ids": PAIR_TEXT,
    "categories": PAIR_TEXT,
    "source_images": PAIR_TEXT,
    "target_images": PAIR_TEXT,
    "source_sizes": PAIR_SIZE,
    "target_sizes": PAIR_SIZE,
    "point_offsets": OFFSETS,
    "source_points": POINTS,
    "predicted_points": POINTS,
    "target_points": ArrayKind("number", ("M", 2)),
    "kind": TEXT._replace(required=False),
    "direction": TEXT._replace(required=False),
    "input_size": ArrayKind("integer", (2,), required=False),
    "target_offsets": OFFSETS._replace(required=False),
    "target_boxes": ArrayKind("number", ("P", 4), required=False),
    "flag_names": ArrayKind("text", ("F",), required=False),
    "flags": ArrayKind("integer", ("P", "F"), required=False),
    "layers": ArrayKind("boolean", ("P", "L"), required=False),
    "gate_probabilities": ArrayKind("number", ("P", "L"), required=False),
    "training_images": ArrayKind("text", ("T",), required=False),
    "skipped_ids": ArrayKind("text", ("S",), required=False),
    "skipped_reasons": ArrayKind("text", ("S",), required=False),
}
TOGETHER = (("flag_names", "flags"), ("skipped_ids", "skipped_reasons"))

# Which NumPy kinds are taken for each type, and the one type that they become.
TYPES: dict[str, tuple[str, type[np.generic]]] = {
    "text": ("U", np.str_),
    "integer": ("iu", np.int64),
    "number": ("fiu", np.float64),
    "boolean": ("b", np.bool_),
}


def check_names(names: Iterable[str]) -> None:
    """Every required array is there, and no array that nobody would read."""
    given = set(names)
    for name in sorted(given - set(LAYOUT)):
        nearest = difflib.get_close_matches(name, set(LAYOUT) - given, n=1)
        hint = f"; did you mean {nearest[0]!r}?" if nearest else "; leave it out"
        raise InputError(f"unknown array {name!r}{hint}")
    missing = [name for name, kind in LAYOUT.items() if kind.required and name not in given]
    if missing:
        raise InputError(f"missing: {', '.join(missing)}; docs/protocols.md lists what a file holds")


def convert(name: str, value: Any) -> Any:
    """The value with its one type: a string, or an array."""
    wanted, shape, _ = LAYOUT[name]
    array: NDArray[Any] = np.asarray(value)
    kinds, dtype = TYPES[wanted]
    if array.dtype.kind not in kinds and array.size > 0:
        raise InputError(f"{name} holds {array.dtype}; wanted: {wanted}")
    if array.ndim != len(shape):
        raise InputError(f"{name} has shape {array.shape}; wanted: {_written(shape)}")
    return str(array) if shape == () else array.astype(dtype)


def check(values: Mapping[str, Any]) -> None:
    """Raise an InputError unless the converted values (None: absent) belong together."""
    _check_choice("kind", values["kind"], KINDS)
    _check_choice("direction", values["direction"], DIRECTIONS)
    for one, other in TOGETHER:
        if (values[one] is None) != (values[other] is None):
            raise InputError(f"{one} and {other} go together; give both or none")
    _check_lengths(values)
    _check_offsets("point_offsets", values["point_offsets"], len(values["source_points"]), values["pair_ids"])
    if values["kind"] == "polygons":
        if values["target_offsets"] is None:
            raise InputError("polygons need target_offsets: where each true polygon begins in target_points")
        _check_offsets(
            "target_offsets", values["target_offsets"], len(values["target_points"]), values["pair_ids"]
        )
    elif values["target_offsets"] is not None:
        raise InputError("target_offsets are for kind = 'polygons'; keypoints share point_offsets")
    elif len(values["target_points"]) != len(values["source_points"]):
        counts = f"{len(values['target_points'])} target and {len(values['source_points'])} source points"
        raise InputError(f"{counts}; keypoints need as many of each")
    _check_values(values)


def _check_lengths(values: Mapping[str, Any]) -> None:
    pairs = len(values["pair_ids"])
    lengths: dict[str | int, tuple[int, str]] = {"P": (pairs, "pair_ids"), "O": (pairs + 1, "pair_ids")}
    for name, (_, shape, _) in LAYOUT.items():
        if values[name] is None or shape == ():
            continue
        for letter, length in zip(shape, values[name].shape, strict=True):
            wanted, source = (
                (letter, "") if isinstance(letter, int) else lengths.setdefault(letter, (length, name))
            )
            if length != wanted:
                because = f" ({letter} = {wanted}, by {source})" if source else ""
                raise InputError(f"{name} has shape {values[name].shape}; wanted: {_written(shape)}{because}")


def _check_offsets(name: str, offsets: NDArray[np.int64], points: int, pair_ids: NDArray[np.str_]) -> None:
    if offsets[0] != 0 or offsets[-1] != points or (np.diff(offsets) < 0).any():
        raise InputError(f"{name} must rise from 0 to the number of points, {points}")
    empty = np.flatnonzero(np.diff(offsets) == 0)
    if len(empty):
        raise InputError(f"pair {pair_ids[empty[0]]} has no points ({name}); list it in skipped_ids instead")


def _check_values(values: Mapping[str, Any]) -> None:
    ids, counts = np.unique(values["pair_ids"], return_counts=True)
    if (counts > 1).any():
        raise InputError(f"pair {ids[counts > 1][0]} occurs {counts.max()} times; pair_ids must differ")
    again = np.intersect1d(ids, [] if values["skipped_ids"] is None else values["skipped_ids"])
    if len(again):
        raise InputError(f"pair {again[0]} is both predicted and skipped")
    for name in ("source_sizes", "target_sizes"):
        if (values[name] <= 0).any():
            raise InputError(f"{name} holds a size of 0 or less; wanted: width, height in pixels")
    for name in ("source_points", "target_points"):  # a predicted NaN means: no answer
        if not np.isfinite(values[name]).all():
            raise InputError(f"{name} holds NaN or infinity; leave out points that are not annotated")


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InputError(f"{name} is {value!r}; wanted: {' or '.join(choices)}")


def _written(shape: tuple[str | int, ...]) -> str:
    names = ["P + 1" if letter == "O" else str(letter) for letter in shape]
    return f"({', '.join(names)}{',' * (len(names) == 1)})"
