"""Optimisers and schedules. The learning rate is a function of the step alone, so nothing of it is stored."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from .config import OptimiserConfig

WARM_UP, FIRST, LAST = 0.3, 1 / 25, 1e-4  # of one-cycle: fraction of the steps; of the highest rate


def make_optimiser(head: nn.Module, config: OptimiserConfig) -> torch.optim.Optimizer:
    """SGD as published, or AdamW; ``factor`` of a group multiplies the rate."""
    factors = {"gates.": config.gate_factor, "lora.": config.lora_factor}
    groups: list[dict[str, Any]] = [{"params": [], "factor": factor} for factor in (1.0, *factors.values())]
    for name, value in head.named_parameters():
        place = next((k for k, part in enumerate(factors, 1) if name.startswith(part)), 0)
        groups[place]["params"].append(value)
    groups = [group for group in groups if group["params"]]
    if config.kind == "sgd":
        return torch.optim.SGD(groups, lr=config.rate, momentum=config.momentum, weight_decay=config.decay)
    return torch.optim.AdamW(groups, lr=config.rate, weight_decay=config.decay)


def learning_rate(config: OptimiserConfig, step: int, steps: int) -> float:
    """The rate of a step, of that many in the whole run."""
    if config.schedule == "constant":
        return config.rate
    top = max(1.0, WARM_UP * steps)
    if step < top:
        return config.rate * _between(FIRST, 1.0, step / top)
    return config.rate * _between(1.0, LAST, (step - top) / max(1.0, steps - top))


def _between(start: float, stop: float, fraction: float) -> float:
    """Along half a cosine."""
    return stop + (start - stop) * (1 + math.cos(math.pi * min(fraction, 1.0))) / 2


@torch.no_grad()
def update_ema(ema: nn.Module, head: nn.Module, decay: float) -> None:
    """Move the exponential moving average of the weights towards the weights."""
    for kept, new in zip(ema.state_dict().values(), head.state_dict().values(), strict=True):
        if kept.is_floating_point():
            kept.lerp_(new, 1 - decay)
