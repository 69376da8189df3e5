"""Section 3.2: a pair of feature blocks -> is the layer on or off?

B batch (pairs)  L layers  C channels of one layer
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

HIDDEN = 32
OFF, ON = 0, 1  # the order of the two scores, as in the published checkpoints
GATINGS = ("gumbel", "sigmoid", "none")  # hard; soft, section 4.2; every layer always on
NEGLIGIBLE = 0.01  # a soft gate below that counts as off when matching: it enters squared


class LayerDecisions(NamedTuple):
    """What the gates said for a batch of pairs."""

    on: Tensor  # (B, L) what multiplies each layer: 1 or 0, or with soft gates all between
    probability: Tensor  # (B, L) without noise: how sure each gate is


class LayerGates(nn.Module):
    """One two-layer perceptron per feature block, from pooled features to the scores (off, on).

    Parameters
    ----------
    channels
        Of each layer.
    gating
        ``gumbel``: hard decisions, trained by the straight-through Gumbel-softmax. ``sigmoid``: one score,
        and its sigmoid weighs the layer. ``none``: all layers on, nothing to learn.
    """

    def __init__(self, channels: Sequence[int], gating: str = "gumbel") -> None:
        super().__init__()
        self.gating, self.layers = gating, len(channels)
        scores = {"gumbel": 2, "sigmoid": 1}.get(gating)
        self.perceptrons = nn.ModuleList(_perceptron(c, scores) for c in channels if scores)

    def forward(
        self,
        pooled: Sequence[Tensor],
        noise: Tensor | None = None,
    ) -> LayerDecisions:
        """Decide for every layer.

        Parameters
        ----------
        pooled
            Per layer (B, C_l): the sum of the global averages of both images' feature blocks.
        noise
            (B, L, 2) of :func:`gumbel_noise`, for a Gumbel gate in training; without it, decisions are
            certain and have no gradient.
        """
        if self.gating == "none":
            ones = pooled[0].new_ones(len(pooled[0]), self.layers)
            return LayerDecisions(ones, ones)
        scores = torch.stack([mlp(x) for mlp, x in zip(self.perceptrons, pooled, strict=True)], dim=1)
        # (B, L, 2), or (B, L, 1) for a sigmoid
        if self.gating == "sigmoid":
            soft = scores[..., 0].sigmoid()
            return LayerDecisions(soft, soft)
        probability = scores.softmax(dim=-1)[..., ON]
        if noise is None:
            return LayerDecisions((scores[..., ON] > scores[..., OFF]).to(scores.dtype), probability)
        return LayerDecisions(straight_through(scores + noise)[..., ON], probability)


def _perceptron(channels: int, scores: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(channels, HIDDEN, bias=False),
        nn.BatchNorm1d(HIDDEN),
        nn.ReLU(inplace=True),
        nn.Linear(HIDDEN, scores, bias=False),
    )


def gumbel_noise(shape: Sequence[int], generator: torch.Generator | None = None) -> Tensor:
    """Independent Gumbel variables z of eq. (1)."""
    # The negative logarithm of an exponential variable is a Gumbel variable.
    return -torch.empty(*shape).exponential_(generator=generator).log()


def straight_through(scores: Tensor) -> Tensor:
    """The one-hot maximum over the last axis; backwards, the gradient of eq. (1) with tau = 1.

    The maximum of scores + Gumbel noise is an exact sample of softmax(scores); its softmax stands in for
    the maximum when gradients are taken.
    """
    soft = scores.softmax(dim=-1)
    hard = torch.zeros_like(soft).scatter_(-1, soft.argmax(dim=-1, keepdim=True), 1.0)
    return hard + (soft - soft.detach())  # exactly 0 or 1 forwards
