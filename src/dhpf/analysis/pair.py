"""One pair under the microscope: its layers, how sure the gates were, and what other choices would change.

L layers  N cells of the source grid  K points
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from ..errors import InputError
from ..images import ImageLike
from ..match import Match
from ..matcher import Matcher, PhotoFeatures
from ..model.matching import match_cells
from ..model.network import HPF, HyperpixelFlow
from ..points import Points, check_points
from ..progress import shown

LEFT_OUT, FORCED_IN = "left out", "forced in"


class Change(NamedTuple):
    """What another choice of layers does to the matches."""

    displacement: float  # mean distance by which the transferred points move, in pixels of the target photo
    changed: float  # share of the source cells whose best target is another one
    confidence: float  # mean confidence over the source cells, less what it was


@dataclass(frozen=True)
class LayerEffect:
    """One layer of one pair."""

    layer: int
    channels: int  # of the backbone's block
    on: bool
    probability: float | None  # of its gate to be on; None without gates
    change: (
        Change | None
    )  # if a layer that is on is left out, or another is forced in; None if it is the only one

    @property
    def what(self) -> str:
        """Which change that is."""
        return LEFT_OUT if self.on else FORCED_IN


@dataclass(frozen=True, eq=False)
class PairStudy:
    """A pair, its match, and the effect of every layer."""

    match: Match
    points: Points  # (K, 2), x then y, in pixels of the source photo
    effects: tuple[LayerEffect, ...]  # of all L layers

    @property
    def confidence(self) -> float:
        """Mean confidence over the source cells."""
        return float(self.match.cell_confidence.mean())

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            **self.match.to_dict(self.points),
            "mean_cell_confidence": round(self.confidence, 6),
            "effects": [
                {
                    "layer": effect.layer,
                    "channels": effect.channels,
                    "on": effect.on,
                    "gate_probability": None if effect.probability is None else round(effect.probability, 6),
                    "tried": effect.what,
                    **(
                        {name: None for name in Change._fields}
                        if effect.change is None
                        else _rounded(effect.change)
                    ),
                }
                for effect in self.effects
            ],
        }


@torch.no_grad()
def study_pair(
    matcher: Matcher, source: ImageLike, target: ImageLike, points: ArrayLike | None = None
) -> PairStudy:
    """Match two photos, whole and without a closer look, then again with every single layer changed.

    Parameters
    ----------
    source, target
        Paths, PIL images, arrays or tensors.
    points
        Source points to follow, (K, 2), x then y, in pixels of the source photo; by default the most
        confident ones of the match.
    """
    everything = Matcher(_with_all_layers(matcher.network), matcher.name, matcher.size, matcher.device)
    a, b = everything.features(source, "source"), everything.features(target, "target")
    chosen, probability = matcher.network.choose(a.features, b.features)
    layers = chosen[0]
    weights = matcher.network.weights(probability)
    soft = None if weights is None else weights[0]
    match = Match(
        source=a.photo,
        target=b.photo,
        grids=(a.features.grid, b.features.grid),
        size=matcher.size,
        model=matcher.name,
        layer_probability=None if probability is None else probability[0].cpu().numpy(),
        **_matched(matcher, layers, a, b, soft),
    )
    followed = match.keypoints() if points is None else check_points(points, match.source.size)
    if not len(followed):
        raise InputError("no points to follow; wanted: at least one [x, y]")
    channels = matcher.network.backbone.channels
    effects = []
    for layer in shown(range(len(channels)), "changing layers", len(channels)):
        others = tuple(sorted(set(layers) ^ {layer}))
        changed = replace(match, **_matched(matcher, others, a, b, _forced(soft, layer))) if others else None
        effects.append(
            LayerEffect(
                layer,
                channels[layer],
                layer in layers,
                None if match.layer_probability is None else float(match.layer_probability[layer]),
                None if changed is None else compare(match, changed, followed),
            )
        )
    return PairStudy(match, followed, tuple(effects))


def compare(before: Match, after: Match, points: Points) -> Change:
    """What has changed between two matches of the same photos; ``points`` (K, 2) in pixels of the source."""
    moved = after.transfer(points) - before.transfer(points)
    return Change(
        float(np.hypot(moved[:, 0], moved[:, 1]).mean()),
        float((after.best != before.best).mean()),
        float(after.cell_confidence.mean() - before.cell_confidence.mean()),
    )


def _with_all_layers(network: HyperpixelFlow) -> HyperpixelFlow:
    """Fixed layers compute no others; any may be forced in, so here all blocks of the backbone are kept."""
    return (
        HPF(network.backbone, range(len(network.backbone.channels))) if isinstance(network, HPF) else network
    )


def _forced(weights: Tensor | None, layer: int) -> Tensor | None:
    """Weights of soft gates, with one gate fully open; it matters only if the layer is used at all."""
    if weights is None:
        return None
    forced = weights.clone()
    forced[layer] = 1.0
    return forced


def _matched(
    matcher: Matcher, layers: Sequence[int], a: PhotoFeatures, b: PhotoFeatures, weights: Tensor | None
) -> dict[str, Any]:
    """The fields of a match that depend on the layers."""
    network = matcher.network
    correlation = network.correlation(layers, a.features, b.features, weights)
    cells = match_cells(correlation, network.space(a.features.size, b.features.size), matcher.matrix_bytes)
    return {
        "best": cells.best.cpu().numpy(),
        "cell_confidence": cells.confidence.cpu().numpy(),
        "layers": tuple(layers),
    }


def _rounded(change: Change) -> dict[str, float]:
    return {name: round(value, 6) for name, value in change._asdict().items()}
