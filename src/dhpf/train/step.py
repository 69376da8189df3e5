"""One step: the method's losses, their gradients, the optimiser."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InputError
from ..methods.base import Batch, Method
from ..processes import sum_over_processes

LARGEST = 1e4  # of a weight; beyond, a training diverges


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
    """Change the weights; returns the terms as numbers, their means over all processes.

    Parameters
    ----------
    losses
        :class:`Losses`, perhaps distributed.
    """
    optimiser.zero_grad()
    loss, terms = losses(batch)
    loss.backward()
    optimiser.step()
    weights = [weight.detach() for group in optimiser.param_groups for weight in group["params"]]
    largest = torch.stack([weight.abs().amax() for weight in weights]).amax().item()
    if not largest <= LARGEST:  # before it is saved; also if it is no number
        raise InputError(f"a weight is {largest:g} and the loss {loss.item():g}: lower optimiser.rate")
    values = torch.stack([loss.detach(), *(term.to(loss) for term in terms.values())])
    means = sum_over_processes(values) / batch.world_size
    return dict(zip(("loss", *terms), means.tolist(), strict=True))
