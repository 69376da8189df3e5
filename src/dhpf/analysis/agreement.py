"""Do two models choose the same layers for the same pair?

P pairs that both predicted  L layers
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from .selection import Selection

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Agreement:
    """Two models side by side, over the pairs that both predicted."""

    first: str
    second: str
    pairs: int
    jaccard: Floats  # (P,) layers that both chose / layers that at least one chose
    same: Floats  # (L,) share of the pairs for which both say the same of a layer: both on, or both off
    correlation: Floats  # (L,) of on or off over the pairs; NaN where a model never changes its mind


@dataclass(frozen=True)
class Incomparable:
    """Two models whose choices cannot be compared, and why."""

    first: str
    second: str
    reason: str


def agreements(selections: Sequence[Selection]) -> tuple[list[Agreement], list[Incomparable]]:
    """Every two models."""
    found, refused = [], []
    for one, other in combinations(selections, 2):
        result = compare(one, other)
        if isinstance(result, Agreement):
            found.append(result)
        else:
            refused.append(result)
    return found, refused


def compare(one: Selection, other: Selection) -> Agreement | Incomparable:
    """Compare the choices of two models pair by pair; pairs are told apart by their id.

    The Jaccard index says how alike the sets are. It is high for any two models with the same habits, so the
    correlation says, layer by layer, whether they also depart from their habits for the same pairs.
    """
    reason = _obstacle(one, other)
    names, mine, theirs = np.intersect1d(
        one.predictions.pair_ids, other.predictions.pair_ids, return_indices=True
    )
    if not reason and not len(names):
        reason = "no pair was predicted by both"
    if reason:
        return Incomparable(one.label, other.label, reason)
    a, b = one.layers[mine], other.layers[theirs]
    return Agreement(
        one.label, other.label, len(names), jaccard(a, b), (a == b).mean(axis=0), correlations(a, b)
    )


def jaccard(a: Booleans, b: Booleans) -> Floats:
    """(P,) size of the common part of two sets of layers (P, L) over the size of their union; 1 if empty."""
    both, either = (a & b).sum(axis=1), (a | b).sum(axis=1)
    return np.where(either == 0, 1.0, both / np.maximum(either, 1))


def correlations(a: Booleans, b: Booleans) -> Floats:
    """(L,) Pearson's correlation over the pairs of on or off (P, L); NaN where either is constant."""
    x, y = a - a.mean(axis=0), b - b.mean(axis=0)
    spread = np.sqrt((x * x).sum(axis=0) * (y * y).sum(axis=0))
    constant = (a == a[:1]).all(axis=0) | (b == b[:1]).all(axis=0)
    return np.where(constant, np.nan, (x * y).sum(axis=0) / np.where(constant, 1.0, spread))


def _obstacle(one: Selection, other: Selection) -> str:
    if not one.same_pairs(other):
        first, second = (
            f"{each.predictions.dataset} {each.predictions.split}, {each.predictions.direction}"
            for each in (one, other)
        )
        return f"different pairs: {' and '.join(sorted((first, second)))}"
    if len(one.channels) != len(other.channels):
        fewer, more = sorted((len(one.channels), len(other.channels)))
        return f"different backbones: {fewer} and {more} layers"
    return ""
