"""Transformations of the plane, and what it takes to regress them from the cosines of two feature maps.

Locations are normalised: -1 and 1 are the centres of a grid's first and last cell, along x and along y. So
they are the same for feature maps of any size. A transformation takes locations of the source to the target.

B pairs  P locations  n cells along each side of a lattice, N = n * n  C channels
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from scipy.interpolate import RBFInterpolator
from torch import Tensor, nn

from ..backbones.base import Features
from ..grid import Grid
from .readout import Flow

CONTROL = 3  # control points of a thin-plate spline along each side, at -1, 0 and 1


def normalised(points: Tensor, grid: Grid) -> Tensor:
    """Points (..., 2) in pixels of the network's input -> normalised locations."""
    return 2 * grid.coordinates(points) / _last_cell(grid, points) - 1


def in_pixels(locations: Tensor, grid: Grid) -> Tensor:
    """Normalised locations (..., 2) -> points in pixels of the network's input."""
    return grid.offset + grid.stride * (locations + 1) / 2 * _last_cell(grid, locations)


def _last_cell(grid: Grid, like: Tensor) -> Tensor:
    """Its column and row."""
    return torch.tensor([max(grid.columns - 1, 1), max(grid.rows - 1, 1)]).to(like)


@lru_cache(maxsize=32)
def lattice(rows: int, columns: int) -> Tensor:
    """Normalised locations of all cells, row by row: (rows * columns, 2)."""
    y, x = torch.meshgrid(torch.linspace(-1, 1, rows), torch.linspace(-1, 1, columns), indexing="ij")
    return torch.stack([x, y], dim=-1).view(-1, 2)


def affine(parameters: Tensor, locations: Tensor) -> Tensor:
    """Locations (B or 1, P, 2) under affine maps (B, 2, 3), given by what they add to the identity."""
    moved: Tensor = locations + locations @ parameters[..., :2].mT + parameters[..., None, :, 2]
    return moved


def undo_affine(parameters: Tensor, locations: Tensor) -> Tensor:
    """What an affine map (2, 3) takes to these locations (P, 2)."""
    matrix = parameters[:, :2] + torch.eye(2).to(parameters)
    origins: Tensor = (locations - parameters[:, 2]) @ torch.linalg.inv(matrix).mT
    return origins


def thin_plate(parameters: Tensor, locations: Tensor) -> Tensor:
    """Locations (B or 1, P, 2), which get no gradient, under thin-plate splines that move the control points,
    row by row, by parameters (B, CONTROL**2, 2)."""
    flat = locations.detach().reshape(-1, 2).double().cpu().numpy()
    basis = torch.from_numpy(_spline()(flat)).to(locations)  # (..., CONTROL**2)
    return locations + basis.view(*locations.shape[:-1], -1) @ parameters


@lru_cache(maxsize=1)
def _spline() -> RBFInterpolator:
    """How much each control point moves a location: splines are linear in what they interpolate."""
    control = lattice(CONTROL, CONTROL).double().numpy()
    return RBFInterpolator(control, np.eye(CONTROL**2), kernel="thin_plate_spline")


class Transformation(NamedTuple):
    """A thin-plate spline, then an affine map."""

    affine: Tensor  # (B, 2, 3)
    thin_plate: Tensor  # (B, CONTROL**2, 2)

    def __call__(self, locations: Tensor) -> Tensor:
        """Of the source, (B or 1, P, 2) -> of the target, (B, P, 2)."""
        return affine(self.affine, thin_plate(self.thin_plate, locations))


def grid_loss(found: Tensor, truth: Tensor) -> Tensor:
    """Mean squared distance of transformed locations (..., P, 2) from where they belong."""
    return (found - truth).square().sum(-1).mean()


def unit_features(features: Features, layer: int, cells: int) -> Tensor:
    """The directions of a layer's features, resized to a lattice: (C, n, n)."""
    block = features.blocks[layer].float().permute(2, 0, 1)[None]
    if block.shape[2:] != (cells, cells):
        block = F.interpolate(block, (cells, cells), mode="bilinear", align_corners=True)
    return F.normalize(block[0], dim=0)


def cosine_maps(a: Tensor, b: Tensor) -> Tensor:
    """Of unit features (B, C, n, n): for each source cell, cosines over the target, (B, N, n, n)."""
    return torch.einsum("bcs,bcyx->bsyx", a.flatten(2), b)


def warp_maps(maps: Tensor, locations: Tensor) -> Tensor:
    """The maps of a target that is warped: its cells lie at locations (B, N, 2) of the given one."""
    size = maps.shape[2]
    return F.grid_sample(maps, locations.view(-1, size, size, 2), align_corners=True)


def read_maps(maps: Tensor, locations: Tensor) -> Tensor:
    """Each source cell's map at locations of its own, (B, N, P, 2) -> (B, N, P); 0 outside the target."""
    size = maps.shape[2]
    flat = maps.reshape(-1, 1, size, size), locations.reshape(-1, 1, *locations.shape[2:])
    return F.grid_sample(*flat, align_corners=True).view(locations.shape[:3])


def match_strengths(maps: Tensor) -> Tensor:
    """Positive cosines, those of each source cell as a unit vector: a cell with one good match speaks up, one
    with many does not. (B, N, n, n)"""
    positive = maps.relu()
    return positive / positive.square().sum((2, 3), keepdim=True).sqrt().clamp_min(1e-6)


def maps_by_offset(maps: Tensor, reach: int) -> Tensor:
    """The maps about each source cell's own location, 0 outside the target: (B, (2 reach + 1)^2, n, n), a
    channel for each offset."""
    size = maps.shape[2]
    padded = F.pad(maps, (reach,) * 4).view(len(maps), size, size, size + 2 * reach, size + 2 * reach)
    windows = padded.unfold(3, 2 * reach + 1, 1).unfold(4, 2 * reach + 1, 1)  # (B, y, x, y', x', dy, dx)
    own: Tensor = windows.diagonal(dim1=1, dim2=3).diagonal(dim1=1, dim2=2)  # (B, dy, dx, y, x)
    return own.flatten(1, 2)


class Regressor(nn.Module):
    """Match strengths -> numbers. A source cell's channels are its strengths over the whole target."""

    def __init__(self, cells: int, channels: int, outputs: int) -> None:
        super().__init__()
        widths, kernels = (cells**2, channels, channels, channels), (5, 5, 3)
        self.convolutions = nn.Sequential(
            *(
                nn.Sequential(nn.Conv2d(widths[k], channels, size), nn.GroupNorm(8, channels), nn.ReLU())
                for k, size in enumerate(kernels)
            )
        )
        left = cells - sum(kernels) + len(kernels)
        self.out = nn.Linear(channels * left**2, outputs)

    def forward(self, maps: Tensor) -> Tensor:
        """(B, N, n, n) -> (B, outputs)."""
        size = maps.shape[2]
        strengths = match_strengths(maps).flatten(2).mT.reshape(len(maps), -1, size, size)
        numbers: Tensor = self.out(self.convolutions(strengths).flatten(1))
        return numbers


@torch.no_grad()
def initialise(head: nn.Module, generator: torch.Generator) -> None:
    """Random weights, but for layers named ``out``, which are 0: a network begins with the identity."""
    for name, module in head.named_modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            uniform = torch.rand(module.weight.shape, generator=generator)
            bound = (6 / module.weight[0].numel()) ** 0.5  # keeps the variance of what a ReLU lets through
            last = name.split(".")[-1] == "out"
            module.weight.copy_(torch.zeros_like(uniform) if last else (2 * uniform - 1) * bound)
            if module.bias is not None:
                module.bias.zero_()


def flow_to(landed: Tensor, confidence: Tensor, grid_a: Grid, grid_b: Grid) -> Flow:
    """The flow of a smooth transformation; it ends at the target's outermost cells.

    Parameters
    ----------
    landed
        Where the cells of a lattice over the source land, normalised: (N, 2).
    confidence
        Of the same cells: (N,).
    """
    size = math.isqrt(len(landed))
    values = torch.cat([landed.clamp(-1, 1), confidence.clamp(0, 1)[:, None]], dim=1).double().cpu()
    resized = F.interpolate(
        values.T.view(1, 3, size, size), grid_a.shape, mode="bilinear", align_corners=True
    )[0]
    where = in_pixels(resized[:2].permute(1, 2, 0), grid_b).numpy()
    return Flow(where - grid_a.centres(), resized[2].numpy(), grid_a, reach=0.0)
