"""What every backbone is: images in, one feature map for each layer out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..grid import Grid, Size


class ForegroundProbe(NamedTuple):
    """A linear map of one layer that tells objects from surroundings; `benchmarks/foreground.py` fits it."""

    layer: int
    weight: Tensor  # (C,)
    bias: Tensor  # ()

    def __call__(self, block: Tensor) -> Tensor:
        """The probability of each cell, (h, w, C) -> (h, w)."""
        return (block.float() @ self.weight.to(block.device) + self.bias.to(block.device)).sigmoid()


class Backbone(nn.Module, ABC):
    """A frozen network whose layers are compared: always in evaluation mode, without gradients.

    Nothing outside this package knows how many layers there are, how large they are or where their cells lie.
    """

    title: str  # for people
    channels: tuple[int, ...]  # of each layer
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)  # of the input's RGB in [0, 1]
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)
    multiple: int = 1  # the sides of the input must be multiples of it
    foreground: ForegroundProbe | None = None  # where one is known
    has_tokens: bool = False  # class and register tokens
    unused: tuple[str, ...] = ()  # how keys of official checkpoints begin that are not needed here

    @abstractmethod
    def grid(self, size: Size) -> Grid:
        """The base grid of an input of that width and height, to which all layers are resized."""

    @abstractmethod
    def forward(self, images: Tensor, layers: Sequence[int] | None = None) -> dict[int, Tensor]:
        """Images (B, 3, H, W), normalised -> layer: (B, C, h, w), of the given layers or of all."""

    def with_tokens(
        self, images: Tensor, layers: Sequence[int] | None = None
    ) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
        """The same, and of each layer its class and register tokens (B, n, C), if it has any."""
        return self(images, layers), {}

    def renamed(self, state: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Weights of a file under the key names of this network, where others are in use as well."""
        return state

    def for_inference(self) -> Backbone:
        """The same function, laid out to be fast; called once, after the weights are loaded."""
        return self.requires_grad_(False)

    def train(self, mode: bool = True) -> Backbone:
        """Stay in evaluation mode: the backbone is frozen, its batch statistics too."""
        return super().train(False)

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        return next(self.parameters()).device


class Regions(NamedTuple):
    """Boxes of an image, and what they hold."""

    boxes: Tensor  # (N, 4): left, top, right, bottom edges in pixels of the network's input
    descriptors: Tensor  # (N, D) of unit length


@dataclass(frozen=True, eq=False)
class Features:
    """What a method needs of one image, computed once however many others it is matched with."""

    blocks: Mapping[int, Tensor]  # layer: (h, w, C)
    pooled: Mapping[int, Tensor]  # layer: (C,), the block's mean
    grid: Grid
    foreground: Tensor | None = None  # (h, w) how likely each cell shows an object, where that is known
    transformed: bool = False  # the blocks are those of a method, no longer the backbone's
    regions: Regions | None = None  # of methods that match regions
    tokens: Mapping[int, Tensor] = field(default_factory=dict)  # layer: (n, C), class and registers

    @property
    def block_grid(self) -> Grid:
        """Where the cells of the finest block lie: those of the base grid, or fewer."""
        return self.grid.with_shape(*max(block.shape[:2] for block in self.blocks.values()))

    def layer_grid(self, layer: int) -> Grid:
        """Where the cells of one layer lie: the first on the base grid's first, then whole strides of it."""
        stretched = self.grid.with_shape(*self.blocks[layer].shape[:2])
        return stretched._replace(stride=stretched.stride // self.grid.stride * self.grid.stride)

    def to(self, device: torch.device, dtype: torch.dtype | None = None) -> Features:
        """The same elsewhere, or with blocks in another precision."""
        return replace(
            self,
            blocks={layer: block.to(device, dtype) for layer, block in self.blocks.items()},
            pooled={layer: mean.to(device) for layer, mean in self.pooled.items()},
            foreground=None if self.foreground is None else self.foreground.to(device),
            regions=None if self.regions is None else Regions(*(part.to(device) for part in self.regions)),
            tokens={layer: some.to(device) for layer, some in self.tokens.items()},
        )

    @property
    def nbytes(self) -> int:
        """Memory held."""
        seen = () if self.foreground is None else (self.foreground,)
        of_layers = (*self.blocks.values(), *self.pooled.values(), *self.tokens.values())
        tensors = (*of_layers, *seen, *(self.regions or ()))
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


@torch.no_grad()
def extract(backbone: Backbone, image: Tensor, layers: Sequence[int] | None = None) -> Features:
    """The features of one image (3, H, W), normalised."""
    wanted = range(len(backbone.channels)) if layers is None else layers
    probe = backbone.foreground
    needed = sorted({*wanted, *(() if probe is None else (probe.layer,))})
    found, tokens = backbone.with_tokens(image[None].to(backbone.device), needed)
    blocks = {layer: block[0].permute(1, 2, 0) for layer, block in found.items()}
    return Features(
        {layer: blocks[layer] for layer in wanted},
        {layer: found[layer][0].mean(dim=(1, 2)) for layer in wanted},
        backbone.grid((image.shape[2], image.shape[1])),
        None if probe is None else probe(blocks[probe.layer]),
        tokens={layer: tokens[layer][0] for layer in wanted if layer in tokens},
    )
