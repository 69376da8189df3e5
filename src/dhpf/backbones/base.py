"""What every backbone is: images in, one feature map for each layer out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..grid import Grid, Size


class Backbone(nn.Module, ABC):
    """A frozen network whose layers are compared: always in evaluation mode, without gradients.

    Nothing outside this package knows how many layers there are, how large they are or where their cells lie.
    """

    title: str  # for people
    channels: tuple[int, ...]  # of each layer
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)  # of the input's RGB in [0, 1]
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)
    multiple: int = 1  # the sides of the input must be multiples of it
    unused: tuple[str, ...] = ()  # how keys of official checkpoints begin that are not needed here

    @abstractmethod
    def grid(self, size: Size) -> Grid:
        """The base grid of an input of that width and height, to which all layers are resized."""

    @abstractmethod
    def forward(self, images: Tensor, layers: Sequence[int] | None = None) -> dict[int, Tensor]:
        """Images (B, 3, H, W), normalised -> layer: (B, C, h, w), of the given layers or of all."""

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


@dataclass(frozen=True, eq=False)
class Features:
    """What a method needs of one image, computed once however many others it is matched with."""

    blocks: Mapping[int, Tensor]  # layer: (h, w, C)
    pooled: Mapping[int, Tensor]  # layer: (C,), the block's mean
    grid: Grid
    transformed: bool = False  # the blocks are those of a method, no longer the backbone's

    @property
    def block_grid(self) -> Grid:
        """Where the cells of the finest block lie: those of the base grid, or fewer."""
        return self.grid.with_shape(*max(block.shape[:2] for block in self.blocks.values()))

    @property
    def nbytes(self) -> int:
        """Memory held."""
        tensors = (*self.blocks.values(), *self.pooled.values())
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


@torch.no_grad()
def extract(backbone: Backbone, image: Tensor, layers: Sequence[int] | None = None) -> Features:
    """The features of one image (3, H, W), normalised."""
    blocks = backbone(image[None].to(backbone.device), layers)
    return Features(
        {layer: block[0].permute(1, 2, 0) for layer, block in blocks.items()},
        {layer: block[0].mean(dim=(1, 2)) for layer, block in blocks.items()},
        backbone.grid((image.shape[2], image.shape[1])),
    )
