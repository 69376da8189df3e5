"""SF-Net: layers adapted by convolutions, kernel soft-argmax, trained from masks or boxes of objects.

The flow should carry one object's mask onto the other's, come back to where it began, and be smooth.

H, W grid of the first layer  N = H*W  C channels of a layer, C' adapted
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..backbones.base import Backbone, Features
from ..errors import InputError
from ..grid import Grid
from ..model.consensus import cosines
from ..model.scores import Probabilities
from ..model.soft_matching import kernel_soft_argmax, soft_flow
from ..model.transform import Perceptron
from .base import Batch, Matches, Method, check_layer, drawn_features
from .initial_weights import initialise_perceptron, set_random_weights, some_pixels
from .ncnet import INTERPOLATED


@dataclass(frozen=True)
class SFNetConfig:
    """Which layers, and how they are adapted and matched."""

    layers: tuple[int, ...] = (-4, -1)  # the first has the grid that is matched
    channels: int = 128  # of adapted features
    temperature: float = 0.03  # of products of cosines
    sigma: float = 3.0  # of the kernel about the best target cell, in cells

    def __post_init__(self) -> None:
        limits = {"channels": (1, 4096), "temperature": (1e-3, 10), "sigma": (0.1, 100)}
        for key, (low, high) in limits.items():
            if not low <= getattr(self, key) <= high:
                raise InputError(f"{key} = {getattr(self, key):g}; wanted from {low:g} to {high:g}")
        if not self.layers:
            raise InputError("layers = []; wanted one or more")


@dataclass(frozen=True)
class SFNetObjective:
    """The weights of the terms, as published."""

    mask: float = 3.0
    consistency: float = 16.0
    smoothness: float = 0.5

    def __post_init__(self) -> None:
        for key in ("mask", "consistency", "smoothness"):
            if getattr(self, key) < 0:
                raise InputError(f"{key} = {getattr(self, key):g}; wanted at least 0")

    @property
    def needs_points(self) -> bool:
        """Whether pairs need keypoints."""
        return False

    @property
    def needs_masks(self) -> bool:
        """Whether it must be known where the objects are."""
        return True


class Adaptation(nn.Module):
    """A perceptron of each cell, and a convolution that sees its neighbours: (h, w, C) -> (h, w, C')."""

    def __init__(self, channels: int, reduced: int) -> None:
        super().__init__()
        self.perceptron = Perceptron(channels, reduced)
        self.around = nn.Conv2d(reduced, reduced, 3, padding=1)

    def forward(self, block: Tensor) -> Tensor:
        own = self.perceptron(block)
        around = self.around(F.relu(own).movedim(-1, 0)[None])[0].movedim(0, -1)
        added: Tensor = own + around
        return added


class SFNet(Method):
    """Semantic flow from objects' masks."""

    name = "sfnet"
    Config = SFNetConfig
    Objective = SFNetObjective
    inits = ("random", "principal")
    config: SFNetConfig

    def __init__(self, backbone: Backbone, config: SFNetConfig | None = None) -> None:
        super().__init__(backbone, config)
        self._layers = tuple(check_layer(backbone, layer) for layer in self.config.layers)
        self.adaptations = nn.ModuleList(
            Adaptation(backbone.channels[layer], self.config.channels) for layer in self._layers
        )

    @property
    def layers(self) -> Sequence[int]:
        """The fixed ones."""
        return self._layers

    @torch.no_grad()
    def prepare(self, samples: Sequence[Features], generator: torch.Generator, init: str = "random") -> None:
        """Begin cell by cell: as random mixtures of each layer's channels, or as principal directions."""
        kinds = [module for module in self.adaptations if isinstance(module, Adaptation)]
        set_random_weights(kinds, generator)
        for layer, adaptation in zip(self.layers, kinds, strict=True):
            initialise_perceptron(adaptation.perceptron, some_pixels(samples, layer, generator), init)
            for weight in adaptation.around.parameters():
                weight.zero_()

    @torch.no_grad()
    def is_finite(self) -> bool:
        """Of all scores."""
        drawn = drawn_features(self.backbone, self.layers)
        return bool(self.scores(drawn, drawn).isfinite().all())

    def scores(self, a: Features, b: Features) -> Tensor:
        """Of every match, (N, N'): the product of all layers' cosines over the temperature."""
        each = [cosines(*(self._adapted(side, n) for side in (a, b))) for n in range(len(self.layers))]
        return torch.stack(each).prod(0) / self.config.temperature

    def _adapted(self, features: Features, number: int) -> Tensor:
        """That one of the layers, (H, W, C')."""
        block = features.blocks[self.layers[number]].to(next(self.adaptations.parameters()))
        return _resized(self.adaptations[number](block), self._grid(features).shape)

    def _grid(self, features: Features) -> Grid:
        return features.layer_grid(self.layers[0])

    @torch.no_grad()
    def match(self, a: Features, b: Features, *, matrix_bytes: int | None = None) -> Matches:
        """Match two images."""
        scores = self.scores(a, b)
        flow = soft_flow(scores, self._grid(a), self._grid(b), self.config.sigma, INTERPOLATED)
        return Matches(flow, scores=Probabilities(scores.softmax(1), self._grid(b)))

    def losses(self, batch: Batch, objective: SFNetObjective) -> dict[str, Tensor]:
        """Mask consistency, flow consistency there and back, smoothness; over both directions."""
        found = []
        for pair, masks in zip(batch.pairs, batch.masks, strict=True):
            scores = self.scores(pair.source, pair.target)
            a, b = self._grid(pair.source), self._grid(pair.target)
            there = kernel_soft_argmax(scores, b, self.config.sigma)[0].view(*a.shape, 2)
            back = kernel_soft_argmax(scores.T, a, self.config.sigma)[0].view(*b.shape, 2)
            mask_a, mask_b = (_shrunk(mask.to(scores), g) for mask, g in zip(masks, (a, b), strict=True))
            found.append(flow_terms(there, back, mask_a, mask_b, a, b))
            found.append(flow_terms(back, there, mask_b, mask_a, b, a))
        mask, consistency, smoothness = torch.stack(found).sum(0) * (batch.world_size / (2 * batch.total))
        return {
            "mask": objective.mask * mask,
            "consistency": objective.consistency * consistency,
            "smoothness": objective.smoothness * smoothness,
        }


def flow_terms(there: Tensor, back: Tensor, mask: Tensor, other: Tensor, grid: Grid, aim: Grid) -> Tensor:
    """Mask consistency, flow consistency and smoothness of the flow from one image to another: (3,).

    Displacements count in half sides of the image they are in. On the object only, but for the masks.

    Parameters
    ----------
    there
        (H, W, 2) where each cell lands, in pixels of the network's input.
    back
        (H', W', 2) where each cell of the other image lands.
    mask, other
        (H, W), (H', W') in [0, 1]: how much of each cell is the object's.
    grid, aim
        Of the image, and of the other one.
    """
    centres = torch.from_numpy(grid.centres()).to(there)
    half = grid.stride * torch.tensor([grid.columns, grid.rows]).to(there) / 2
    on_object = mask / mask.sum().clamp_min(1e-6)
    carried = _read_at(other[..., None], there, aim)[..., 0]
    returned = _read_at(back, there, aim)
    motion = (there - centres) / half
    vertical, horizontal = (motion.diff(dim=axis).abs().sum(-1) for axis in (0, 1))
    steps = F.pad(vertical, (0, 0, 0, 1)) + F.pad(horizontal, (0, 1))
    return torch.stack(
        [
            (mask - carried).square().mean(),
            (on_object * ((returned - centres) / half).square().sum(-1)).sum(),
            (on_object * steps).sum(),
        ]
    )


def _read_at(values: Tensor, points: Tensor, grid: Grid) -> Tensor:
    """Values of a grid's cells (H', W', C) at points (H, W, 2) in pixels, interpolated: (H, W, C)."""
    last = torch.tensor([grid.columns - 1, grid.rows - 1]).to(points).clamp_min(1)
    places = 2 * grid.coordinates(points) / last - 1
    kind = {"align_corners": True, "padding_mode": "border"}
    return F.grid_sample(values.movedim(-1, 0)[None], places[None], **kind)[0].movedim(0, -1)  # type: ignore[arg-type]


def _resized(block: Tensor, shape: tuple[int, int]) -> Tensor:
    """(h, w, C') -> (H, W, C'); the first and last cells stay where they are."""
    if block.shape[:2] == shape:
        return block
    return F.interpolate(block.movedim(-1, 0)[None], shape, mode="bilinear", align_corners=True)[0].movedim(
        0, -1
    )


def _shrunk(mask: Tensor, grid: Grid) -> Tensor:
    """A mask on the base grid, averaged over the cells of a coarser one."""
    return F.adaptive_avg_pool2d(mask[None], grid.shape)[0]
