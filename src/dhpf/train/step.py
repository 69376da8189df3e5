"""One step: the method's losses, their gradients, the optimiser."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InputError
from ..methods.base import Batch, Method


class Losses(nn.Module):
    """A method with its objective: what several processes train together."""

    def __init__(self, method: Method, objective: Any) -> None:
        super().__init__()
        self.method, self.objective = method, objective

    def forward(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of this process's pairs, and its named terms."""
        terms = self.method.losses(batch, self.objective)
        loss = torch.stack([term for name, term in terms.items() if not name.startswith("_")]).sum()
        return loss, {name.removeprefix("_"): term.detach() for name, term in terms.items()}


def training_step(losses: nn.Module, batch: Batch, optimiser: torch.optim.Optimizer) -> dict[str, float]:
    """Change the weights; returns the terms as numbers.

    Parameters
    ----------
    losses
        :class:`Losses`, perhaps distributed.
    """
    optimiser.zero_grad()
    loss, terms = losses(batch)
    loss.backward()
    optimiser.step()
    weights = [weight for group in optimiser.param_groups for weight in group["params"]]
    if not all(weight.sum().isfinite() for weight in weights):  # before they are saved
        raise InputError(
            f"weights are infinite or no number, with a loss of {loss.item()}; lower optimiser.rate"
        )
    return {name: term.item() for name, term in terms.items()} | {"loss": loss.item()}
