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


class LayerDecisions(NamedTuple):
    """What the gates said for a batch of pairs."""

    on: Tensor  # (B, L), 1 or 0; in training its gradient is that of the softmax
    probability: Tensor  # (B, L) softmax of the scores without noise: how sure each gate is


class LayerGates(nn.Module):
    """One two-layer perceptron per feature block, from pooled features to the scores (off, on)."""

    def __init__(self, channels: Sequence[int]) -> None:
        super().__init__()
        self.perceptrons = nn.ModuleList(
            nn.Sequential(
                nn.Linear(c, HIDDEN, bias=False),
                nn.BatchNorm1d(HIDDEN),
                nn.ReLU(inplace=True),
                nn.Linear(HIDDEN, 2, bias=False),
            )
            for c in channels
        )

    def forward(
        self,
        pooled_a: Sequence[Tensor],
        pooled_b: Sequence[Tensor],
        generator: torch.Generator | None = None,
    ) -> LayerDecisions:
        """Decide for every layer.

        Parameters
        ----------
        pooled_a, pooled_b
            Per layer (B, C_l): the global average of the two images' feature blocks.
        generator
            Source of the Gumbel noise; used in training mode only.
        """
        scores = torch.stack(
            [mlp(a + b) for mlp, a, b in zip(self.perceptrons, pooled_a, pooled_b, strict=True)], dim=1
        )  # (B, L, 2)
        probability = scores.softmax(dim=-1)[..., ON]
        if not self.training:
            return LayerDecisions((scores[..., ON] > scores[..., OFF]).to(scores.dtype), probability)
        return LayerDecisions(gumbel_straight_through(scores, generator)[..., ON], probability)


def gumbel_straight_through(scores: Tensor, generator: torch.Generator | None) -> Tensor:
    """Sample a one-hot choice over the last axis; backwards, the gradient of eq. (1) with tau = 1.

    Maximum of scores + Gumbel noise is an exact sample of softmax(scores); its softmax stands in for
    the maximum when gradients are taken.
    """
    # The negative logarithm of an exponential variable is a Gumbel variable.
    noise = -torch.empty_like(scores).exponential_(generator=generator).log()
    soft = (scores + noise).softmax(dim=-1)
    hard = torch.zeros_like(soft).scatter_(-1, soft.argmax(dim=-1, keepdim=True), 1.0)
    return hard + (soft - soft.detach())  # exactly 0 or 1 forwards
