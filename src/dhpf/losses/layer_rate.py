"""Section 3.4, layer selection: each layer should be on for a fraction mu of the pairs."""

from __future__ import annotations

from torch import Tensor


def layer_rate_loss(on: Tensor, rate: float) -> Tensor:
    """L_sel: the sum over layers of (fraction of the batch for which the layer is on - mu)^2.

    Parameters
    ----------
    on
        (B, L) gates, with gradients.
    rate
        mu.
    """
    return (on.mean(0) - rate).square().sum()
