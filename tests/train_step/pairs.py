"""Small random pairs, and a step's loss and gradients by both ways."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from benchmarks.straightforward import batch_of, straightforward_loss
from torch import Tensor

from dhpf.model.backbone import ResNet
from dhpf.model.network import DHPF, HeadKind
from dhpf.train.batches import Position, Sample
from dhpf.train.config import LossConfig
from dhpf.train.features import StoredFeatures, block_shapes
from dhpf.train.step import Learner

SIZE = (72, 64)  # width, height


class Step(NamedTuple):
    """What one way found."""

    loss: float
    gradients: dict[str, Tensor]
    statistics: dict[str, Tensor]  # of the batch norms, after the step


def random_samples(backbone: ResNet, count: int, seed: int = 0) -> list[Sample]:
    """Pairs that have something in common, so that matches differ in how good they are."""
    random = np.random.default_rng(seed)

    def stored(blocks: list[np.ndarray]) -> StoredFeatures:
        halves = tuple(block.astype(np.float16) for block in blocks)
        return StoredFeatures(
            tuple(torch.from_numpy(b.astype(np.float32)).mean((0, 1)) for b in halves), halves
        )

    samples = []
    for _ in range(count):
        first = [random.standard_normal(shape) for shape in block_shapes(backbone, SIZE)]
        second = [np.roll(b, 1, (0, 1)) + 0.7 * random.standard_normal(b.shape) for b in first]
        points = [torch.from_numpy(random.uniform(0, SIZE, (5, 2))).float() for _ in range(2)]
        samples.append(Sample(stored(first), stored(second), *points))
    return samples


def make_learner(
    backbone: ResNet, kind: HeadKind | None = None, loss: LossConfig | None = None, statistics: str = "gates"
) -> Learner:
    """A learner whose head is random, and always the same."""
    torch.manual_seed(3)
    network = DHPF(backbone, kind)
    for module in network.head().modules():
        if isinstance(module, (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d)):
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
            torch.nn.init.normal_(module.bias, 0.2, 0.3)
            torch.nn.init.uniform_(module.running_var, 0.3, 2.0)
            torch.nn.init.normal_(module.running_mean, 0.0, 0.1)
    return Learner(network, loss or LossConfig(), SIZE, statistics=statistics)


def position_of(learner: Learner, samples: list[Sample]) -> Position:
    count = len(samples) // 2 if learner.config.objective == "weak" else len(samples)
    return Position(2, 5, tuple((0, n) for n in range(count)))


def ours(learner: Learner, samples: list[Sample]) -> Step:
    return _taken(learner, learner(position_of(learner, samples), samples).loss)


def straightforward(learner: Learner, samples: list[Sample]) -> Step:
    return _taken(learner, straightforward_loss(learner, position_of(learner, samples), batch_of(samples)))


def _taken(learner: Learner, loss: Tensor) -> Step:
    """Parameters without a gradient are given zeros."""
    head = learner.network.head()
    head.zero_grad()
    torch.autograd.backward(loss)
    gradients = {
        name: torch.zeros_like(p) if p.grad is None else p.grad.clone() for name, p in head.named_parameters()
    }
    kept = {name: value.clone() for name, value in head.named_buffers() if "running" in name}
    return Step(loss.item(), gradients, kept)
