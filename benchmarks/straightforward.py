"""A training step as one would write it from the paper: all at the base grid, everything with gradients.

The measure of ``dhpf.train.step``, in the tests by its gradients and in ``train_speed.py`` by its time:
transform every block of every pair, multiply by the gates, resize, concatenate, take all cosines, vote.

B pairs  L layers  C channels of a layer, C' reduced  D channels of a hyperimage  N, N' cells of both sides
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from dhpf.losses.layer_rate import layer_rate_loss
from dhpf.losses.rows import norm
from dhpf.losses.strong import importance, nearest_cells, strong_loss, target_distributions
from dhpf.losses.weak import correlation_entropy, weak_loss
from dhpf.model.correlation import PUBLISHED_EPSILON, Grid
from dhpf.model.gating import gumbel_noise
from dhpf.model.hough import hough_space, spread_votes, sum_by_offset
from dhpf.model.motion import BOLDNESS, Direction, motion_space, moved_windows, shared_motion
from dhpf.model.mutual import TINY
from dhpf.model.transfer import Neighbourhoods, cell_offsets
from dhpf.model.transform import RHO
from dhpf.train.batches import Position, Sample
from dhpf.train.step import NEARLY_RIGHT, Learner


class Batch(NamedTuple):
    """Features of all pairs, in float32."""

    source: list[Tensor]  # per layer (B, C, h, w)
    target: list[Tensor]
    pooled_source: list[Tensor]  # per layer (B, C)
    pooled_target: list[Tensor]
    points: list[tuple[Tensor, Tensor]]  # of each pair (K, 2), in pixels of the network's input


def batch_of(samples: Sequence[Sample]) -> Batch:
    """What is there before a step begins."""
    sides = [s.source for s in samples], [s.target for s in samples]
    layers = range(len(samples[0].source.blocks))
    source, target = (
        [torch.stack([photo.block(n).permute(2, 0, 1) for photo in side]).contiguous() for n in layers]
        for side in sides
    )
    pooled_a, pooled_b = (
        [torch.stack([photo.pooled[n] for photo in side]) for n in layers] for side in sides
    )
    points = [(s.source_points, s.target_points) for s in samples]
    return Batch(source, target, pooled_a, pooled_b, points)


def straightforward_loss(learner: Learner, position: Position, batch: Batch) -> Tensor:
    """The same loss as ``learner(position, samples)``, with the same random numbers."""
    network, config = learner.network, learner.config
    seed = np.random.SeedSequence((learner.seed, position.epoch, position.step)).generate_state(1)
    generator = torch.Generator().manual_seed(int(seed[0]))
    pairs, layers = len(batch.points), len(batch.source)
    noise = gumbel_noise((pairs, layers, 2), generator)
    network.gates.train(learner.statistics != "none" and pairs > 1)
    network.transforms.train(learner.statistics == "all")
    on = network.gates(batch.pooled_source, batch.pooled_target, noise).on  # (B, L)

    channels = [c // RHO if network.kind.transform else c for c in network.backbone.channels]
    masks = [(torch.rand(c, generator=generator) >= config.dropout).float() for c in channels]
    grid = batch.source[0].shape[2], batch.source[0].shape[3]
    images = []
    for blocks in (batch.source, batch.target):
        reduced = [network.transform(n, block) for n, block in enumerate(blocks)]
        resized = [
            F.interpolate(mask[:, None, None] * block, grid, mode="bilinear", align_corners=True)
            for mask, block in zip(masks, reduced, strict=True)
        ]
        images.append(torch.cat(resized, 1).flatten(2))  # (B, D, N)
    gates = on.repeat_interleave(torch.tensor(channels), 1)[:, :, None]  # (B, D, 1)
    base = (torch.arange(gates.shape[1]) < channels[0]).float()[:, None]
    none_on = (on.detach() == 0).all(1)[:, None, None]
    appearance = _appearance(images[0], images[1], gates, base * none_on, network.kind.once)  # (B, N, N')
    confidence = appearance * _votes(appearance.detach(), grid, learner)

    if config.objective == "strong":
        match = _strong(confidence, batch, grid, learner)
    else:
        entropies = correlation_entropy(_mutual(confidence), grid, grid)
        match = weak_loss(*entropies.chunk(2))
    loss: Tensor = match + config.select * layer_rate_loss(on, config.mu) + config.l1 * on.abs().mean()
    return loss


def _appearance(a: Tensor, b: Tensor, gates: Tensor, base: Tensor, once: bool) -> Tensor:
    """p(m_a): the gates multiply both images' features or, ``once``, each term of products and squared norms.

    ``base`` is 1 for channels that count although all gates are off.
    """
    if once:
        weights = gates + base
        squares = (weights * a.square()).sum(1), (weights * b.square()).sum(1)
        a = weights * a
    else:
        a, b = (gates + base) * a, (gates + base) * b
        squares = a.square().sum(1), b.square().sum(1)
    lengths = norm(squares[0])[:, :, None] * norm(squares[1])[:, None]
    return (a.mT @ b / (lengths + PUBLISHED_EPSILON)).relu().square()


@torch.no_grad()
def _votes(appearance: Tensor, grid: Grid, learner: Learner) -> Tensor:
    if not learner.network.kind.hough:
        return torch.ones_like(appearance)
    size = learner.size[1], learner.size[0]
    space = hough_space(size, size, appearance.dtype, appearance.device)
    voted = [space.votes(sum_by_offset(one, 0, grid, grid)) for one in appearance]
    votes = torch.stack([spread_votes(table, 0, grid[0], grid, grid) for table in voted])
    if not learner.network.motion or learner.config.objective == "weak":
        return votes
    again = motion_space(size, size, appearance.dtype, appearance.device)
    every = torch.arange(appearance.shape[1])
    for boldness in BOLDNESS:
        filtered = _mutual(appearance * votes)
        forward, backward = filtered.max(2), filtered.max(1)
        for n, own in enumerate(appearance):
            there, back = (Direction(found.indices[n], found.values[n]) for found in (forward, backward))
            windows = moved_windows(shared_motion(there, back, grid, grid, boldness), grid)
            table = own.new_zeros(len(again.vertical), len(again.horizontal))
            windows.add(table, every, own)
            votes[n] = windows.read(again.votes(table), every)
    return votes


def _mutual(confidence: Tensor) -> Tensor:
    rows = confidence.amax(2, keepdim=True).clamp_min(TINY)
    columns = confidence.amax(1, keepdim=True).clamp_min(TINY)
    return confidence * ((confidence / rows) * (confidence / columns))


def _strong(confidence: Tensor, batch: Batch, grid: Grid, learner: Learner) -> Tensor:
    with torch.no_grad():
        best = _mutual(confidence).argmax(2)
    threshold = torch.tensor([NEARLY_RIGHT * max(learner.size)])
    losses = []
    for matrix, own, (source, target) in zip(confidence, best, batch.points, strict=True):
        offsets = Neighbourhoods(cell_offsets(own.numpy(), grid, grid[1]))
        x, y = source.numpy().astype(np.float64).T
        predicted = source + torch.from_numpy(offsets.mean(x, y)).float()
        omega = importance(predicted[None], target[None], threshold)
        if not learner.config.omega:
            omega = torch.ones_like(omega)
        wanted = target_distributions(target, grid, learner.config.spread)[None]
        rows = matrix[nearest_cells(source, grid)][None]
        losses.append(strong_loss(rows, wanted, torch.ones_like(omega, dtype=torch.bool), omega).loss)
    return torch.stack(losses).mean()
