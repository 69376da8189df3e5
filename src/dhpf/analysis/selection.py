"""Which layers a model chose, from its predictions: how often, how many, how wide the hyperimage became.

P pairs  L layers  C categories
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..evaluate.breakdown import Summary
from ..evaluate.predictions import Predictions
from ..evaluate.score import MASK_METRICS, score_predictions
from .categories import GROUPS, by_group, group_of

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

ALPHA = 0.1  # of the PCK that is quoted
ALL = "all"
HEAD = ".safetensors"  # what head files end in


@dataclass(frozen=True, eq=False)
class Selection:
    """What one model chose on one split."""

    label: str  # short, and different from that of every other model of the report
    predictions: Predictions
    layers: Booleans  # (P, L) true where the layer was on
    channels: tuple[int, ...]  # (L,) of the backbone's blocks
    rho: int  # channels of a block over those that enter the hyperimage: 1 without a transformation

    @property
    def gated(self) -> bool:
        """Layers were chosen for each pair by gates; otherwise they are fixed."""
        return self.predictions.gate_probabilities is not None

    @property
    def widths(self) -> Integers:
        """(L,) channels of each block in the hyperimage."""
        return np.array(self.channels, np.int64) // self.rho

    @property
    def dimensions(self) -> Integers:
        """(P,) channels of each pair's hyperimage."""
        dimensions: Integers = self.layers @ self.widths
        return dimensions

    @property
    def counts(self) -> Integers:
        """(P,) how many layers were on."""
        counts: Integers = self.layers.sum(axis=1)
        return counts

    @property
    def groups(self) -> dict[str, Booleans]:
        """Pairs (P,) of each kind of thing, in fixed order; kinds without pairs are left out."""
        kinds = np.array([group_of(category) for category in self.predictions.categories.tolist()])
        return {group: kinds == group for group in GROUPS if (kinds == group).any()}

    @property
    def categories(self) -> dict[str, Booleans]:
        """Pairs (P,) of each category, animals first."""
        names = self.predictions.categories
        return {name: names == name for name in by_group(names.tolist())}

    def frequency(self, members: Booleans | None = None) -> Floats:
        """(L,) share of the pairs, or of some of them, for which each layer was on."""
        chosen = self.layers if members is None else self.layers[members]
        frequency: Floats = chosen.mean(axis=0)
        return frequency

    def histogram(self, members: Booleans) -> Integers:
        """(L + 1,) pairs for which 0, 1, ... L layers were on."""
        return np.bincount(self.counts[members], minlength=len(self.channels) + 1)

    def certainty(self, members: Booleans | None = None) -> Floats | None:
        """(L,) mean over pairs of how sure the gates were to be on; None without gates."""
        probabilities = self.predictions.gate_probabilities
        if probabilities is None:
            return None
        certainty: Floats = (probabilities if members is None else probabilities[members]).mean(axis=0)
        return certainty

    def same_pairs(self, other: Selection) -> bool:
        """Both are of one split of one data set, its points carried in the same direction."""
        ours, theirs = (
            (each.dataset, each.split, each.direction) for each in (self.predictions, other.predictions)
        )
        return ours == theirs


@dataclass(frozen=True)
class Quality:
    """The figure that is quoted for a model, or why there is none."""

    metric: str
    fingerprint: str = ""
    summary: Summary | None = None
    reason: str = ""

    @property
    def value(self) -> float | None:
        """In percent."""
        return None if self.summary is None else self.summary.values[-1]

    @property
    def interval(self) -> tuple[float, float] | None:
        """In which the value lies with 95 % confidence; None for a single pair."""
        return self.summary.intervals[-1] if self.summary and self.summary.intervals else None

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        if self.value is None:
            return {"metric": self.metric, "value": None, "reason": self.reason}
        return {
            "metric": self.metric,
            "value": round(self.value, 4),
            "interval": None if self.interval is None else [round(end, 4) for end in self.interval],
            "protocol": self.fingerprint,
        }


def select(predictions: Predictions, label: str, source: str | Path | None = None) -> Selection:
    """Read the chosen layers of predictions, or say why they cannot be analysed.

    Parameters
    ----------
    label
        What to call the model.
    source
        The predictions file, to be named in errors.
    """
    name = label if source is None else str(source)
    if not len(predictions):
        raise InputError(f"{name}: holds no pair and skips {len(predictions.skipped)}; nothing to analyse")
    if predictions.layers is None:
        raise InputError(
            f"{name}: does not say which layers were chosen (another method's predictions?); "
            "wanted: a file of 'dhpf predict'"
        )
    channels = _channels(predictions.layers.shape[1], name)
    return Selection(label, predictions, predictions.layers, channels, _rho(predictions))


def quality(predictions: Predictions) -> Quality:
    """PCK at 0.1 under the data set's default protocol; of masks, their IoU."""
    metric = f"PCK@{ALPHA:g}" if predictions.kind == "keypoints" else MASK_METRICS[-1]
    try:
        score = score_predictions(predictions, alphas=[ALPHA])
    except InputError as error:  # of a data set or direction without a default protocol
        return Quality(metric, reason=str(error))
    return Quality(metric, score.fingerprint, score.overall)


def labels_for(models: Sequence[str], files: Sequence[Path] = ()) -> list[str]:
    """A different name for each model, as short as will do: its own, with its folder, its predictions file's.

    Parameters
    ----------
    models
        Names, or paths of head files.
    files
        Their predictions files, if they have some.
    """
    heads = [Path(model) for model in models]
    choices = (
        [head.stem if head.suffix == HEAD else str(head) for head in heads],
        [f"{head.parent.name}/{head.stem}" if head.suffix == HEAD else str(head) for head in heads],
        [file.stem for file in files],
        [str(file) for file in files],
        list(models),
    )
    return next((names for names in choices if len(set(names)) == len(models)), choices[-1])


def _rho(predictions: Predictions) -> int:
    """How much the model's transformations reduce blocks; its head file tells, if it is still there."""
    from ..model.checkpoint import head_kind, read_metadata
    from ..model.transform import RHO

    head = Path(predictions.model)
    if predictions.gate_probabilities is None:
        return 1
    if head.suffix == HEAD and head.is_file():
        return RHO if head_kind(read_metadata(head), head).transform else 1
    return RHO


def _channels(layers: int, name: str) -> tuple[int, ...]:
    """Channels of the blocks of the backbone that has so many of them."""
    from ..model.backbone import BOTTLENECKS

    depths = {1 + sum(blocks): depth for depth, blocks in BOTTLENECKS.items()}
    if layers not in depths:
        wanted = " or ".join(f"{count} (ResNet-{depth})" for count, depth in depths.items())
        raise InputError(f"{name}: has {layers} layers; wanted: {wanted}")
    return _channels_of_depth(depths[layers])


@lru_cache
def _channels_of_depth(depth: int) -> tuple[int, ...]:
    import torch

    from ..model.backbone import ResNet

    with torch.device("meta"):  # the shape alone, no weights
        return ResNet(depth).channels
