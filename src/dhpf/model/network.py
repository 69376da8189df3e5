"""Section 3: the whole flow, from two images to the best target of every cell.

B batch (pairs)  L layers  C channels of one layer  N cells of the source grid
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .backbone import ResNet
from .correlation import PUBLISHED_EPSILON, FactoredCorrelation, Grid, correlate
from .evidence import Evidence
from .gating import NEGLIGIBLE, LayerGates
from .hough import EqualVotes, HoughSpace, hough_space
from .matching import MATRIX_BYTES, match_cells
from .motion import motion_space
from .transform import Transform


@dataclass(frozen=True)
class Features:
    """What matching needs of a batch of images, computed once however many others they are matched with."""

    blocks: dict[int, Tensor]  # layer -> (B, C, h, w); only the layers that may be chosen
    pooled: tuple[Tensor, ...]  # per layer (B, C): global averages for the gates; empty if layers are fixed
    size: Grid  # height, width of the network's input
    grid: Grid  # rows, columns of the base block

    @property
    def nbytes(self) -> int:
        """Memory held."""
        tensors = [*self.blocks.values(), *self.pooled]
        return sum(t.numel() * t.element_size() for t in tensors)

    def part(self, start: int, stop: int) -> Features:
        """Some images of the batch."""
        part = slice(start, stop)
        blocks = {layer: block[part] for layer, block in self.blocks.items()}
        return Features(blocks, tuple(pooled[part] for pooled in self.pooled), self.size, self.grid)

    def __len__(self) -> int:
        return next(iter(self.blocks.values())).shape[0]


class PairMatches(NamedTuple):
    """The matches of a batch of pairs."""

    best: Tensor  # (B, N) best target cell of each source cell
    confidence: Tensor  # (B, N) in [0, 1]
    layers: tuple[tuple[int, ...], ...]  # the chosen layers of each pair
    probability: Tensor | None  # (B, L) how sure each gate was to be on; None if layers are fixed
    evidence: tuple[Evidence, ...] = ()  # of each pair, if it was to be kept


class HyperpixelFlow(nn.Module, ABC):
    """What both networks share: choose layers, correlate them, vote, filter."""

    def __init__(self, backbone: ResNet) -> None:
        super().__init__()
        self.backbone = backbone
        self.epsilon = PUBLISHED_EPSILON  # set to 0 for the paper's plain cosine
        self.motion = False  # matches vote again; can be set for any model
        self.closer = False  # whoever has the photos matches them once more, closer; can be set, too

    @abstractmethod
    def candidates(self) -> Sequence[int]:
        """The layers that may be chosen, in order."""

    @abstractmethod
    def choose(self, a: Features, b: Features) -> tuple[list[tuple[int, ...]], Tensor | None]:
        """The chosen layers of each pair, and how sure each gate was."""

    @abstractmethod
    def transform(self, layer: int, block: Tensor) -> Tensor:
        """The chosen block as it enters the hyperimage."""

    @torch.no_grad()
    def features(self, images: Tensor) -> Features:
        """(B, 3, H, W), normalised -> the blocks that may be chosen."""
        blocks = self.backbone(images, last=max(self.candidates()))
        grid = blocks[0].shape[2], blocks[0].shape[3]
        chosen = {layer: blocks[layer] for layer in self.candidates()}
        return Features(chosen, self._pooled(chosen), (images.shape[2], images.shape[3]), grid)

    def _pooled(self, blocks: dict[int, Tensor]) -> tuple[Tensor, ...]:
        return ()

    def weights(self, probability: Tensor | None) -> Tensor | None:
        """What multiplies each layer of both images, where gates are soft; None where they are hard."""
        return None

    def space(self, size_a: Grid, size_b: Grid) -> HoughSpace:
        """Where the matches of two images of that height and width vote."""
        weight = self.backbone.conv1.weight
        kind = size_a, size_b, weight.dtype, weight.device
        return hough_space(*kind)._replace(second=motion_space(*kind) if self.motion else None)

    def correlation(
        self, layers: Sequence[int], a: Features, b: Features, weights: Tensor | None = None
    ) -> FactoredCorrelation:
        """Correlate the given layers of one pair, each multiplied by its weight (L,) if there are any."""
        blocks_a = [self.transform(layer, a.blocks[layer])[0] for layer in layers]
        blocks_b = [self.transform(layer, b.blocks[layer])[0] for layer in layers]
        if weights is not None:
            blocks_a, blocks_b = (
                [weights[layer] * block for layer, block in zip(layers, blocks, strict=True)]
                for blocks in (blocks_a, blocks_b)
            )
        return correlate(blocks_a, blocks_b, a.grid, b.grid, self.epsilon)

    @torch.no_grad()
    def match(
        self, a: Features, b: Features, matrix_bytes: int = MATRIX_BYTES, keep_evidence: bool = False
    ) -> PairMatches:
        """Match every pair of a batch; layers are chosen per pair, and only those are computed."""
        layers, probability = self.choose(a, b)
        weights, space = self.weights(probability), self.space(a.size, b.size)
        cells, evidence = [], []
        for pair, chosen in enumerate(layers):
            one, other = a.part(pair, pair + 1), b.part(pair, pair + 1)
            weight = None if weights is None else weights[pair]
            correlation = self.correlation(chosen, one, other, weight)
            cells.append(match_cells(correlation, space, matrix_bytes))
            if keep_evidence:
                evidence.append(Evidence(correlation, cells[-1].votes, cells[-1].column_maxima))
        best, confidence = torch.stack([c.best for c in cells]), torch.stack([c.confidence for c in cells])
        return PairMatches(best, confidence, tuple(layers), probability, tuple(evidence))

    def both_features(self, source: Tensor, target: Tensor) -> tuple[Features, Features]:
        """Features of both sides; equally large images go through the backbone together, which is faster."""
        if source.shape != target.shape:
            return self.features(source), self.features(target)
        both = self.features(torch.cat([source, target]))
        return both.part(0, len(source)), both.part(len(source), len(both))

    def forward(self, source: Tensor, target: Tensor) -> PairMatches:
        """Images (B, 3, H, W) and (B, 3, H', W'), normalised -> matches."""
        return self.match(*self.both_features(source, target))


@dataclass(frozen=True)
class HeadKind:
    """What a head is made of: the method as published, or a variant of sections 4.1 and 4.2."""

    gating: str = "gumbel"  # one of gating.GATINGS
    transform: bool = True  # reduce chosen blocks by 1x1 convolutions
    hough: bool = True  # geometric votes
    once: bool = False  # the gate enters the correlation once; as published it enters squared
    motion: bool = False  # matches vote again, for offsets from the motion that they share
    closer: bool = False  # the parts that both photos show are matched once more, enlarged


class DHPF(HyperpixelFlow):
    """Dynamic hyperpixel flow: gates choose layers for each pair, transformations reduce them."""

    def __init__(self, backbone: ResNet, kind: HeadKind | None = None) -> None:
        super().__init__(backbone)
        self.kind = kind or HeadKind()
        self.motion, self.closer = self.kind.motion, self.kind.closer
        self.gates = LayerGates(backbone.channels, self.kind.gating)
        self.transforms = nn.ModuleList(Transform(c) for c in backbone.channels if self.kind.transform)

    def head(self) -> nn.ModuleDict:
        """All that is learned."""
        return nn.ModuleDict({"gates": self.gates, "transforms": self.transforms})

    def folded(self) -> DHPF:
        """For inference: fold batch norms into the transformations; not trainable after."""
        self.eval()
        transforms = [t for t in self.transforms if isinstance(t, Transform)]
        self.transforms = nn.ModuleList(t.folded() for t in transforms)
        return self.requires_grad_(False)

    def candidates(self) -> Sequence[int]:
        return range(len(self.backbone.channels))

    def _pooled(self, blocks: dict[int, Tensor]) -> tuple[Tensor, ...]:
        return tuple(block.mean(dim=(2, 3)) for block in blocks.values())

    def choose(self, a: Features, b: Features) -> tuple[list[tuple[int, ...]], Tensor | None]:
        decisions = self.gates(a.pooled, b.pooled)
        chosen = [tuple(row.nonzero().flatten().tolist()) for row in decisions.on > NEGLIGIBLE]
        return [layers or (0,) for layers in chosen], decisions.probability  # all off: the base block

    def weights(self, probability: Tensor | None) -> Tensor | None:
        if self.kind.gating != "sigmoid" or probability is None:
            return None
        return probability.sqrt() if self.kind.once else probability

    def space(self, size_a: Grid, size_b: Grid) -> HoughSpace:
        space = super().space(size_a, size_b)
        return space if self.kind.hough else EqualVotes(space.vertical, space.horizontal)

    def transform(self, layer: int, block: Tensor) -> Tensor:
        reduced: Tensor = self.transforms[layer](block) if self.kind.transform else block
        return reduced


class HPF(HyperpixelFlow):
    """Static hyperpixels, the method's parent: a fixed set of layers, used as they are; nothing to train."""

    def __init__(self, backbone: ResNet, layers: Sequence[int]) -> None:
        super().__init__(backbone)
        self.layers = tuple(layers)

    def candidates(self) -> Sequence[int]:
        return self.layers

    def choose(self, a: Features, b: Features) -> tuple[list[tuple[int, ...]], Tensor | None]:
        return [self.layers] * len(a), None

    def transform(self, layer: int, block: Tensor) -> Tensor:
        return block
