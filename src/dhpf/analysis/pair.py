"""One pair, layer by layer: is it on, how sure was its gate, and what would the other choice change?

L layers  K points
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..errors import InputError
from ..evaluate.progress import shown
from ..images import ImageLike
from ..match import Match
from ..matcher import Matcher
from ..points import Points, check_points

LEFT_OUT, FORCED_IN = "left out", "forced in"
LATTICE = 64  # pixels a side, over the whole source, that stand for all


class Change(NamedTuple):
    """What another choice of layers does to the matches."""

    points: float  # mean distance by which the followed points move, in pixels of the target
    pixels: float  # the same of pixels all over the source
    confidence: float  # their mean confidence, less what it was


@dataclass(frozen=True)
class LayerEffect:
    """One layer of one pair."""

    layer: int
    on: bool
    probability: float | None  # of its gate to be on; None without gates
    change: Change | None  # if it is left out (when on) or forced in; None: the only one cannot be left out

    @property
    def tried(self) -> str:
        """Which change that is."""
        return LEFT_OUT if self.on else FORCED_IN


@dataclass(frozen=True, eq=False)
class PairStudy:
    """A pair, its match, and the effect of every layer."""

    match: Match
    points: Points  # (K, 2) that were followed, x then y, in pixels of the source
    effects: tuple[LayerEffect, ...]  # of all L layers


def study_pair(
    matcher: Matcher, source: ImageLike, target: ImageLike, points: ArrayLike | None = None
) -> PairStudy:
    """Match two images, then again with every single layer changed.

    Parameters
    ----------
    source, target
        Paths, PIL images, arrays or tensors.
    points
        Source points to follow, (K, 2), x then y, in pixels of the source; by default those that a drawing
        of the match would show.
    """
    everything = _using(matcher, None)
    a, b = everything.features(source, "source"), everything.features(target, "target")
    match = everything.match(a, b, evidence=False)
    if match.layers is None:
        raise InputError(f"{matcher.name} chooses no layers; there is none to leave out or to force in")
    followed = match.keypoints() if points is None else check_points(points, match.source.size)
    if not len(followed):
        raise InputError("no points to follow; wanted: at least one [x, y]")
    count, gates = len(matcher.network.backbone.channels), match.layer_probability
    effects = []
    for layer in shown(range(count), "changing layers", count):
        others = tuple(sorted(set(match.layers) ^ {layer}))
        changed = _using(matcher, others, layer).match(a, b, evidence=False) if others else None
        effects.append(
            LayerEffect(
                layer,
                layer in match.layers,
                None if gates is None else float(gates[layer]),
                None if changed is None else compare(match, changed, followed),
            )
        )
    return PairStudy(match, followed, tuple(effects))


def compare(before: Match, after: Match, points: Points) -> Change:
    """What has changed between two matches of the same images; ``points`` (K, 2) in pixels of the source."""
    sides = (np.linspace(0, side - 1, LATTICE) for side in before.source.size)
    pixels = np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)

    def moved(locations: Points) -> float:
        return float(np.linalg.norm(after.transfer(locations) - before.transfer(locations), axis=1).mean())

    confidence = after.confidence_at(pixels).mean() - before.confidence_at(pixels).mean()
    return Change(moved(points), moved(pixels), float(confidence))


def _using(matcher: Matcher, layers: Sequence[int] | None, forced: int = 0) -> Matcher:
    """A matcher that has all layers at hand, and uses those given; None: those that it chooses itself.

    A soft gate that is forced in is fully open.
    """
    network = copy(matcher.network)
    network.candidates = lambda: range(len(network.backbone.channels))  # type: ignore[method-assign]
    if layers is not None:

        def choose(a: Any, b: Any) -> Any:
            _, probability = matcher.network.choose(a, b)
            if probability is not None:
                probability = probability.clone()
                probability[:, forced] = 1.0
            return [tuple(layers)], probability

        network.choose = choose  # type: ignore[method-assign]
    return Matcher(network, matcher.name, matcher.size, matcher.device, matcher.matrix_bytes)
