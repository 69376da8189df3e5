"""One pair, layer by layer: is it on, how sure was its gate, and what would the other choice change?

L layers  K points
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from ..backbones.base import extract
from ..errors import InputError
from ..images import ImageLike, to_input
from ..match import Match
from ..matcher import Matcher
from ..methods.base import Method
from ..methods.dhpf import DHPF
from ..methods.hpf import HPF
from ..model.gating import NEGLIGIBLE, LayerDecisions
from ..points import Points, check_points
from ..progress import shown

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
    match = matcher.match(source, target, scores=False)
    if match.layers is None:
        raise InputError(f"{matcher.name} chooses no layers; there is none to leave out or to force in")
    followed = match.keypoints() if points is None else check_points(points, match.source.size)
    if not len(followed):
        raise InputError("no points to follow; wanted: at least one [x, y]")
    backbone, gates = matcher.method.backbone, match.layer_probability
    a, b = (
        extract(backbone, to_input(image, matcher.size, backbone.mean, backbone.std)[0])
        for image in (match.source, match.target)
    )
    effects = []
    choices = matcher.method.layers if isinstance(matcher.method, DHPF) else range(len(backbone.channels))
    for layer in shown(choices, "changing layers", len(choices)):
        change = None
        others = sorted(set(match.layers) ^ {layer})
        if others:
            found = using(matcher.method, others).match(a, b, matrix_bytes=matcher.matrix_bytes)
            change = compare(match, replace(match, cells=matcher.calibrated(found.flow)), followed)
        probability = None if gates is None else float(gates[layer])
        effects.append(LayerEffect(layer, layer in match.layers, probability, change))
    return PairStudy(match, followed, tuple(effects))


def compare(before: Match, after: Match, points: Points) -> Change:
    """What has changed between two matches of the same images; ``points`` (K, 2) in pixels of the source."""
    sides = (np.linspace(0, side - 1, LATTICE) for side in before.source.size)
    pixels = np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)

    def moved(locations: Points) -> float:
        return float(np.linalg.norm(after.transfer(locations) - before.transfer(locations), axis=1).mean())

    confidence = after.confidence_at(pixels).mean() - before.confidence_at(pixels).mean()
    return Change(moved(points), moved(pixels), float(confidence))


def using(method: Method, layers: Sequence[int]) -> Method:
    """The same method, but these layers are on. A soft gate that is off is fully opened."""
    if isinstance(method, HPF):
        return HPF(method.backbone, replace(method.config, layers=tuple(layers)))
    if not isinstance(method, DHPF):
        raise InputError(f"{method.name} cannot be told which layers to choose")

    def decide(pooled: Sequence[Tensor]) -> LayerDecisions:
        free = method.gates(pooled)
        on = torch.zeros_like(free.on)
        places = [method.layers.index(layer) for layer in layers]
        on[:, places] = free.on[:, places].where(free.on[:, places] > NEGLIGIBLE, 1.0)
        return LayerDecisions(on, free.probability)

    forced = copy(method)
    forced.__dict__["gates"] = decide  # of the copy alone
    return forced
