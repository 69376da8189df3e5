"""The image itself, for methods that have no network: one layer, its pixels in [0, 1]."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..grid import Grid, Size
from .base import Backbone

CELL = 4  # pixels between two cells of the flow


class Pixels(Backbone):
    """A backbone without weights."""

    title = "image without a network"
    channels = (3,)
    mean, std = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    multiple = CELL

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("anchor", torch.zeros(0), persistent=False)  # it follows moves between devices

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return next(self.buffers()).device

    def grid(self, size: Size) -> Grid:
        """A cell for every four by four pixels, in their middle."""
        return Grid(size[1] // CELL, size[0] // CELL, stride=CELL, offset=(CELL - 1) / 2)

    def forward(self, images: Tensor, layers: Sequence[int] | None = None) -> dict[int, Tensor]:
        """Layer 0 is the image."""
        return {0: images}
