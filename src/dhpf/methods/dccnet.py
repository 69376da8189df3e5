"""DCC-Net: NC-Net twice, by appearance and by spatial context, fused as each pair of cells needs it.

The context of a cell is how similar it is to each cell around it: what surrounds an eye looks alike in two
faces, whatever their fur. A small network weighs both by how clearly their matches choose.

H, W grid  N = H*W, N' source and target cells  C channels of the layer  k side of the window
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..backbones.base import Backbone, Features
from ..errors import InputError
from ..model.consensus import Consensus, consensus_filter, matching_score
from ..model.transform import Perceptron
from .base import Batch
from .initial_weights import initialise_perceptron, set_random_weights, some_pixels
from .ncnet import NCNet, NCNetConfig, WeakObjective, weak_loss

HIDDEN = 8  # channels of the network that weighs


@dataclass(frozen=True)
class DCCNetConfig(NCNetConfig):
    """NC-Net's, and what context is."""

    reach: int = 5  # of a cell's window to each side, in cells
    reduced: int = 128  # channels of features with context

    def __post_init__(self) -> None:
        super().__post_init__()
        for key, most in {"reach": 30, "reduced": 4096}.items():
            if not 1 <= getattr(self, key) <= most:
                raise InputError(f"{key} = {getattr(self, key)}; wanted from 1 to {most}")


@dataclass(frozen=True)
class DCCNetObjective(WeakObjective):
    """NC-Net's, for the fused matches and for both that they are made of."""

    auxiliary: float = 1.0  # weight of those two

    def __post_init__(self) -> None:
        if self.auxiliary < 0:
            raise InputError(f"auxiliary = {self.auxiliary:g}; wanted at least 0")


class Fusion(nn.Module):
    """Weighs two kinds of scores for every match, from how clearly both its cells choose by each kind."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Conv2d(4, HIDDEN, 3, padding=1)
        self.out = nn.Conv2d(HIDDEN, 2, 3, padding=1)

    def forward(self, kinds: Sequence[Tensor], shape_a: Sequence[int], shape_b: Sequence[int]) -> Tensor:
        """Two (N, N') -> one; it does not depend on which image is called the source."""
        rows = self._preference([scores.softmax(1) for scores in kinds], shape_a)  # (2, N)
        columns = self._preference([scores.T.softmax(1) for scores in kinds], shape_b)  # (2, N')
        weight = (rows[:, :, None] + columns[:, None]).softmax(0)
        return (weight * torch.stack([*kinds])).sum(0)

    def _preference(self, probabilities: Sequence[Tensor], shape: Sequence[int]) -> Tensor:
        """For each kind, from the highest probability of each cell and the entropy of all: (2, N)."""
        seen = [part for kind in probabilities for part in (kind.amax(1), _entropy(kind))]
        maps = torch.stack(seen).view(1, 4, *shape)
        preference: Tensor = self.out(F.relu(self.hidden(maps)))[0].flatten(1)
        return preference


class DCCNet(NCNet):
    """Dynamic context correspondence."""

    name = "dccnet"
    Config = DCCNetConfig
    Objective = DCCNetObjective
    inits = ("random", "principal")
    config: DCCNetConfig

    def __init__(self, backbone: Backbone, config: DCCNetConfig | None = None) -> None:
        super().__init__(backbone, config)
        window = (2 * self.config.reach + 1) ** 2
        self.context = Perceptron(backbone.channels[self.layer] + window, self.config.reduced)
        self.context_consensus = Consensus(self.config.channels, self.config.kernels)
        self.fusion = Fusion()

    @torch.no_grad()
    def prepare(self, samples: Sequence[Features], generator: torch.Generator, init: str = "random") -> None:
        """Begin with random mixtures or principal directions of features with context; with equal weights."""
        set_random_weights([self.context, self.fusion], generator)
        for consensus in (self.consensus, self.context_consensus):
            consensus.initialise(generator)
        widened = [replace(one, blocks={self.layer: self._with_context(self.block(one))}) for one in samples]
        initialise_perceptron(self.context, some_pixels(widened, self.layer, generator), init)
        for weight in self.fusion.out.parameters():
            weight.zero_()

    def kinds(self, a: Features, b: Features) -> list[Tensor]:
        """The scores of every match by appearance and by context, each (N, N')."""
        block_a, block_b = (self.block(side) for side in (a, b))
        context_a, context_b = (self.context(self._with_context(block)) for block in (block_a, block_b))
        return [
            consensus_filter(block_a, block_b, self.consensus),
            consensus_filter(context_a, context_b, self.context_consensus),
        ]

    def scores(self, a: Features, b: Features) -> Tensor:
        """Of every match, (N, N'), both kinds fused."""
        return self._fused(self.kinds(a, b), a, b)

    def _fused(self, kinds: Sequence[Tensor], a: Features, b: Features) -> Tensor:
        fused: Tensor = self.fusion(kinds, *(side.blocks[self.layer].shape[:2] for side in (a, b)))
        return fused

    def _with_context(self, block: Tensor) -> Tensor:
        """(H, W, C) -> (H, W, C + k*k): unit features beside self-similarities."""
        return torch.cat([F.normalize(block, dim=-1), self_similarity(block, self.config.reach)], dim=-1)

    def losses(self, batch: Batch, objective: Any) -> dict[str, Tensor]:
        """NC-Net's, of the fused scores and of both kinds."""
        found = []
        for pair in batch.pairs:
            kinds = self.kinds(pair.source, pair.target)
            every = [self._fused(kinds, pair.source, pair.target), *kinds]
            found.append(torch.stack([matching_score(scores) for scores in every]))
        fused, local, context = torch.stack(found).T
        terms = weak_loss(fused, batch)
        for name, clarity in (("local", local), ("context", context)):
            terms[name] = objective.auxiliary * weak_loss(clarity, batch)["match"]
        return terms


def self_similarity(block: Tensor, reach: int) -> Tensor:
    """The cosine of each cell with those around it, (H, W, C) -> (H, W, k*k), row by row; 0 outside."""
    rows, columns, side = *block.shape[:2], 2 * reach + 1
    unit = F.normalize(block.flatten(0, 1), dim=1)
    every = (unit @ unit.T).view(rows, columns, rows, columns)
    padded = F.pad(every, [reach] * 4)
    y, x, down, right = torch.meshgrid(
        *(torch.arange(count, device=block.device) for count in (rows, columns, side, side)), indexing="ij"
    )
    return padded[y, x, y + down, x + right].flatten(2)


def _entropy(probabilities: Tensor) -> Tensor:
    """Of each row (N, N'), as a fraction of the largest there can be."""
    entropy: Tensor = torch.special.entr(probabilities).sum(1)
    return entropy / math.log(max(probabilities.shape[1], 2))
