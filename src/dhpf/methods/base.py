"""What every method is: features of two images in, a flow out; and what it learns from."""

from __future__ import annotations

import reprlib
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from ..backbones.base import Backbone, Features, extract
from ..errors import InputError
from ..grid import Grid
from ..model.readout import Flow
from ..model.scores import Scores


class Matches(NamedTuple):
    """What a method finds for one pair."""

    flow: Flow
    layers: tuple[int, ...] | None = None  # that were chosen; None where a method does not choose
    layer_probability: Tensor | None = None  # (L,) how sure each gate was to be on, where there are gates
    scores: Scores | None = None  # of all matches, where the method keeps them


class TrainingPair(NamedTuple):
    """One pair as a step takes it."""

    source: Features
    target: Features
    source_points: Tensor  # (K, 2) in pixels of the network's input
    target_points: Tensor  # (K, 2)


class Batch(NamedTuple):
    """What one process takes of a step."""

    pairs: Sequence[TrainingPair]  # for objectives with negative pairs, these come last: as many again
    slots: Sequence[int]  # their places in the batch of all processes
    total: int  # pairs in the batch of all processes
    generator: torch.Generator  # on the CPU, in the same state in every process
    world_size: int = 1  # gradients are averaged over so many processes
    # Of source and target of each pair, how much of each cell of the base grid is the object's: (H, W) in
    # [0, 1]; for objectives that need them.
    masks: Sequence[tuple[Tensor, Tensor]] = ()


@dataclass(frozen=True)
class NoSettings:
    """Of a method that has none."""


def check_layer(backbone: Backbone, layer: int) -> int:
    """The number of a layer that may be counted from the end, or an error."""
    count = len(backbone.channels)
    if not -count <= layer < count:
        raise InputError(f"layer = {layer}; wanted: from {-count} to {count - 1}")
    return layer % count


def check_layers(backbone: Backbone, layers: Sequence[int]) -> tuple[int, ...]:
    """Numbers of different layers, in order; they may be counted from the end."""
    found = tuple(check_layer(backbone, layer) for layer in layers)
    if list(found) != sorted(set(found)):
        raise InputError(f"layers = {reprlib.repr(list(layers))}; wanted: in order, each layer once")
    return found


def drawn_features(backbone: Backbone, layers: Sequence[int]) -> Features:
    """Random ones of 3 x 3 cells, larger than those of any image: a fixed input for `Method.is_finite`."""
    generator = torch.Generator().manual_seed(0)
    blocks = {n: 1e3 * torch.randn(3, 3, backbone.channels[n], generator=generator) for n in layers}
    return Features(blocks, {}, Grid(3, 3, stride=1.0))


class Method(nn.Module):
    """A frozen backbone and whatever turns its features into a flow.

    How a method behaves is its ``config``, a frozen dataclass that is saved with its weights.
    """

    name: ClassVar[str]
    Config: ClassVar[type[Any]] = NoSettings  # its settings
    Objective: ClassVar[type[Any]] = NoSettings  # the settings of its losses
    keeps_scores: ClassVar[bool] = True  # of single matches: false where there are none to show
    inits: ClassVar[tuple[str, ...]] = ("random",)  # ways to set initial weights, see `prepare`

    def __init__(self, backbone: Backbone, config: Any = None) -> None:
        super().__init__()
        self.backbone = backbone
        self.config = self.Config() if config is None else config

    @property
    def layers(self) -> Sequence[int]:
        """The layers of the backbone that it needs."""
        return range(len(self.backbone.channels))

    def features(self, image: Tensor) -> Features:
        """What matching needs of one image (3, H, W), normalised for the backbone."""
        found = self.own_features(extract(self.backbone, image, self.layers))
        return replace(found, tokens={})  # only what computes layers anew needs them

    def own_features(self, features: Features) -> Features:
        """The same from what the frozen backbone sees; nothing is to be done by default."""
        return features

    @abstractmethod
    def match(self, a: Features, b: Features, *, matrix_bytes: int | None = None) -> Matches:
        """Match two images.

        Parameters
        ----------
        matrix_bytes
            Bound on the memory for correlations, if the method can keep one.
        """

    def head(self) -> nn.Module:
        """All that is learned and saved; its parameters get gradients in training."""
        parts = {name: part for name, part in self.named_children() if part is not self.backbone}
        return nn.ModuleDict(parts)

    def prepare(self, samples: Sequence[Features], generator: torch.Generator, init: str = "random") -> None:
        """Set initial weights from the features of some training images; nothing by default."""

    def losses(self, batch: Batch, objective: Any) -> dict[str, Tensor]:
        """Named terms of the loss, which is their sum. A name that begins with ``_`` is only shown."""
        raise NotImplementedError(f"{self.name} has nothing to train")

    @torch.no_grad()
    def is_finite(self) -> bool:
        """Whether its head computes finite values on a fixed input: finite weights alone do not mean that."""
        return True

    def for_inference(self) -> Method:
        """The same function, made ready to match; it cannot be trained after."""
        return self.eval().requires_grad_(False)
