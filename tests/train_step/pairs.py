"""Small random pairs, and a step's loss and gradients by both ways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from benchmarks.straightforward import batch_of, straightforward_loss
from torch import Tensor

from dhpf.backbones.base import Features
from dhpf.backbones.resnet import ResNet
from dhpf.methods.base import Batch, TrainingPair
from dhpf.methods.dhpf import DHPF, DHPFConfig, DHPFObjective
from dhpf.train.step import Losses

SIZE = (72, 64)  # width, height
SHAPES = ((16, 18),) * 4 + ((8, 9),) * 4 + ((4, 5),) * 6 + ((2, 3),) * 3  # of ResNet-50's layers


class Step(NamedTuple):
    """What one way found."""

    loss: float
    gradients: dict[str, Tensor]
    statistics: dict[str, Tensor]  # of the batch norms, after the step


class Learner(NamedTuple):
    """A method and what it is to learn."""

    method: DHPF
    objective: DHPFObjective


def features(backbone: ResNet, blocks: Sequence[Tensor]) -> Features:
    """As they are stored."""
    halves = {n: block.half() for n, block in enumerate(blocks)}
    pooled = {n: block.float().mean((0, 1)) for n, block in halves.items()}
    return Features(halves, pooled, backbone.grid(SIZE))


def random_pairs(backbone: ResNet, count: int, seed: int = 0) -> list[TrainingPair]:
    """Pairs that have something in common, so that matches differ in how good they are."""
    generator = torch.Generator().manual_seed(seed)
    pairs = []
    for _ in range(count):
        shapes = [(*shape, c) for shape, c in zip(SHAPES, backbone.channels, strict=True)]
        first = [torch.randn(shape, generator=generator) for shape in shapes]
        second = [
            torch.roll(b, (1, 1), (0, 1)) + 0.7 * torch.randn(b.shape, generator=generator) for b in first
        ]
        points = [torch.rand(5, 2, generator=generator) * torch.tensor(SIZE) for _ in range(2)]
        pairs.append(TrainingPair(features(backbone, first), features(backbone, second), *points))
    return pairs


def make_learner(
    backbone: ResNet, config: DHPFConfig | None = None, objective: DHPFObjective | None = None
) -> Learner:
    """A learner whose head is random, and always the same."""
    torch.manual_seed(3)
    method = DHPF(backbone, config)
    for module in method.head().modules():
        if isinstance(module, (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d)):
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
            torch.nn.init.normal_(module.bias, 0.2, 0.3)
            torch.nn.init.uniform_(module.running_var, 0.3, 2.0)
            torch.nn.init.normal_(module.running_mean, 0.0, 0.1)
    return Learner(method, objective or DHPFObjective())


def as_batch(pairs: Sequence[TrainingPair], **changes: object) -> Batch:
    """A whole batch in one process; the noise is always the same."""
    batch = Batch(pairs, range(len(pairs)), len(pairs), torch.Generator().manual_seed(11))
    return batch._replace(**changes)


def ours(learner: Learner, pairs: Sequence[TrainingPair]) -> Step:
    return _taken(learner, Losses(*learner)(as_batch(pairs))[0])


def straightforward(learner: Learner, pairs: Sequence[TrainingPair]) -> Step:
    generator = torch.Generator().manual_seed(11)
    return _taken(learner, straightforward_loss(*learner, batch_of(pairs), generator))


def _taken(learner: Learner, loss: Tensor) -> Step:
    """Parameters without a gradient are given zeros."""
    head = learner.method.head()
    head.zero_grad()
    torch.autograd.backward(loss)
    gradients = {
        name: torch.zeros_like(p) if p.grad is None else p.grad.clone() for name, p in head.named_parameters()
    }
    kept = {name: value.clone() for name, value in head.named_buffers() if "running" in name}
    return Step(loss.item(), gradients, kept)
