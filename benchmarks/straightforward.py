"""A training step as one would write it from the paper: all at the base grid, everything with gradients.

The measure of ``dhpf.methods.dhpf_training``, in the tests by its gradients and in ``train_speed.py`` by its
time: transform every block of every pair, multiply by the gates, resize, concatenate, take all cosines, vote.

B pairs  L layers  C channels of a layer, C' reduced  D channels of a hyperimage  N, N' cells of both sides
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from tests.literal import correlation_entropy
from torch import Tensor

from dhpf.grid import Grid
from dhpf.losses.layer_rate import layer_rate_loss
from dhpf.losses.strong import importance, strong_loss, target_distributions
from dhpf.losses.weak import weak_loss
from dhpf.methods.base import TrainingPair
from dhpf.methods.dhpf import DHPF, DHPFObjective
from dhpf.methods.dhpf_training import NEARLY_RIGHT
from dhpf.model.correlation import PUBLISHED_EPSILON, ZERO_SQUARE
from dhpf.model.gating import gumbel_noise
from dhpf.model.hough import hough_space, offset_windows
from dhpf.model.mutual import TINY
from dhpf.model.readout import argmax_flow
from dhpf.model.revoting import EXTRAPOLATION, Direction, affine_space, affine_windows, fit_affine
from dhpf.model.transform import RHO


class LiteralBatch(NamedTuple):
    """Features of all pairs, in float32."""

    source: list[Tensor]  # per layer (B, h, w, C)
    target: list[Tensor]
    pooled: list[Tensor]  # per layer (B, C), of both images together
    points: list[tuple[Tensor, Tensor]]  # of each pair (K, 2), in pixels of the network's input
    grid: Grid


def batch_of(pairs: Sequence[TrainingPair]) -> LiteralBatch:
    """What is there before a step begins."""
    layers = sorted(pairs[0].source.blocks)
    source = [torch.stack([pair.source.blocks[n].float() for pair in pairs]) for n in layers]
    target = [torch.stack([pair.target.blocks[n].float() for pair in pairs]) for n in layers]
    pooled = [torch.stack([pair.source.pooled[n] + pair.target.pooled[n] for pair in pairs]) for n in layers]
    points = [(pair.source_points, pair.target_points) for pair in pairs]
    return LiteralBatch(source, target, pooled, points, pairs[0].source.grid)


def straightforward_loss(
    method: DHPF, objective: DHPFObjective, batch: LiteralBatch, generator: torch.Generator
) -> Tensor:
    """The same loss as the sum of ``method.losses``, with the same random numbers."""
    pairs, layers, grid = len(batch.points), len(batch.source), batch.grid
    noise = gumbel_noise((pairs, layers, 2), generator)
    method.gates.train(objective.bn_mode != "none" and pairs > 1)
    method.transforms.train(objective.bn_mode == "all")
    on = method.gates(batch.pooled, noise).on  # (B, L)

    channels = [c // RHO if method.config.transform else c for c in method.backbone.channels]
    masks = [(torch.rand(c, generator=generator) >= objective.dropout).float() for c in channels]
    images = []
    for blocks in (batch.source, batch.target):
        reduced = [method.transform(n, block) for n, block in enumerate(blocks)]
        resized = [
            F.interpolate((mask * block).permute(0, 3, 1, 2), grid.shape, mode="bilinear", align_corners=True)
            for mask, block in zip(masks, reduced, strict=True)
        ]
        images.append(torch.cat(resized, 1).flatten(2))  # (B, D, N)
    gates = on.repeat_interleave(torch.tensor(channels), 1)[:, :, None]  # (B, D, 1)
    base = (torch.arange(gates.shape[1]) < channels[0]).float()[:, None]
    none_on = (on.detach() == 0).all(1)[:, None, None]
    appearance = _appearance(images[0], images[1], gates, base * none_on, method.config.gate_power)
    confidence = appearance * _votes(appearance.detach(), grid, method, objective)

    if objective.objective == "strong":
        match = _strong(confidence, batch, objective)
    else:
        entropies = correlation_entropy(_mutual(confidence), grid, grid)
        match = weak_loss(*entropies.chunk(2))
    loss: Tensor = (
        match + objective.select * layer_rate_loss(on, objective.mu) + objective.l1 * on.abs().mean()
    )
    return loss


def _appearance(a: Tensor, b: Tensor, gates: Tensor, base: Tensor, power: int) -> Tensor:
    """p(m_a): the gates multiply both images' features or, with power 1, each term of products and squared
    norms. ``base`` is 1 for channels that count although all gates are off."""
    if power == 1:
        weights = gates + base
        squares = (weights * a.square()).sum(1), (weights * b.square()).sum(1)
        a = weights * a
    else:
        a, b = (gates + base) * a, (gates + base) * b
        squares = a.square().sum(1), b.square().sum(1)
    norms = [torch.where(square <= 0, ZERO_SQUARE, square).sqrt() for square in squares]
    return (a.mT @ b / (norms[0][:, :, None] * norms[1][:, None] + PUBLISHED_EPSILON)).relu().square()


@torch.no_grad()
def _votes(appearance: Tensor, grid: Grid, method: DHPF, objective: DHPFObjective) -> Tensor:
    if method.config.hough == "none":
        return torch.ones_like(appearance)
    kind = appearance.dtype, appearance.device
    space, windows = hough_space(grid, grid, *kind), offset_windows(grid, grid, appearance.device)
    every = torch.arange(grid.cells)
    votes = []
    for one in appearance:
        table = one.new_zeros(len(space.vertical), len(space.horizontal))
        windows.add(table, every, one)
        votes.append(windows.read(space.votes(table), every))
    if not method.config.revote or objective.objective == "weak":
        return torch.stack(votes)
    again = affine_space(grid, grid, *kind)
    for extrapolation in EXTRAPOLATION:
        for n, own in enumerate(appearance):
            filtered = _mutual((own * votes[n])[None])[0]
            forward, backward = filtered.max(1), filtered.max(0)
            directions = (
                Direction(forward.indices, forward.values),
                Direction(backward.indices, backward.values),
            )
            moved = affine_windows(fit_affine(*directions, grid, grid, extrapolation), grid)
            table = own.new_zeros(len(again.vertical), len(again.horizontal))
            moved.add(table, every, own)
            votes[n] = moved.read(again.votes(table), every)
    return torch.stack(votes)


def _mutual(confidence: Tensor) -> Tensor:
    rows = confidence.amax(2, keepdim=True).clamp_min(TINY)
    columns = confidence.amax(1, keepdim=True).clamp_min(TINY)
    return confidence * ((confidence / rows) * (confidence / columns))


def _strong(confidence: Tensor, batch: LiteralBatch, objective: DHPFObjective) -> Tensor:
    grid = batch.grid
    with torch.no_grad():
        value, best = _mutual(confidence).max(2)
    losses = []
    for matrix, own, sure, (source, target) in zip(confidence, best, value, batch.points, strict=True):
        flow = argmax_flow(own, sure, grid, grid)
        moved = flow.transfer(source.double().numpy())
        threshold = NEARLY_RIGHT * grid.stride * max(grid.shape)
        omega = importance(torch.from_numpy(moved).float(), target, threshold)
        if not objective.omega:
            omega = torch.ones_like(omega)
        wanted = target_distributions(target, grid, objective.target_sigma)
        losses.append(strong_loss(matrix[grid.nearest(source)], wanted, omega))
    return torch.stack(losses).mean()
