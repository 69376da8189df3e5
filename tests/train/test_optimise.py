"""Rates by hand, and what the optimisers do with them."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from dhpf.train.config import OptimiserConfig
from dhpf.train.optimise import learning_rate, make_optimiser, update_ema


def head(value: float = 1.0) -> nn.ModuleDict:
    names = ("gates", "transforms", "lora")
    made = nn.ModuleDict({name: nn.Linear(1, 1, bias=False) for name in names})
    for parameter in made.parameters():
        nn.init.constant_(parameter, value)
    return made


@pytest.mark.parametrize(
    ("step", "fraction"),
    [
        (0, 1 / 25),  # begins at a twenty-fifth
        (15, (1 + 1 / 25) / 2),  # half way up a cosine
        (30, 1.0),  # the top after three tenths
        (65, (1 + 1e-4) / 2),  # half way down
        (99, 1e-4 + (1 - 1e-4) * (1 + math.cos(math.pi * 69 / 70)) / 2),
        (100, 1e-4),
    ],
)
def test_one_cycle(step, fraction):
    assert learning_rate(OptimiserConfig(rate=2.0), step, 100) == pytest.approx(2.0 * fraction)


def test_one_cycle_is_torchs():
    config = OptimiserConfig(rate=0.5)
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    theirs = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, 0.5, total_steps=101, pct_start=31 / 101, final_div_factor=1e4 / 25
    )
    for step in range(100):
        assert learning_rate(config, step, 100) == pytest.approx(theirs.get_last_lr()[0], rel=1e-9)
        optimiser.step()
        theirs.step()


def test_constant_and_shortest_run():
    assert learning_rate(OptimiserConfig(rate=0.03, schedule="constant"), 7, 10) == 0.03
    assert learning_rate(OptimiserConfig(rate=0.03), 0, 1) == pytest.approx(0.03 / 25)


def test_sgd_has_momentum_and_gates_and_updates_have_their_own_rates():
    made = head()
    config = OptimiserConfig(kind="sgd", rate=0.1, momentum=0.5, gate_factor=3.0, lora_factor=0.2)
    optimiser = make_optimiser(made, config)
    for group in optimiser.param_groups:
        group["lr"] = 0.1 * group["factor"]
    for _ in range(2):  # velocities 1 and 1 + 0.5
        for parameter in made.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimiser.step()
    assert made["transforms"].weight.item() == pytest.approx(1 - 0.1 * 2.5)
    assert made["gates"].weight.item() == pytest.approx(1 - 0.3 * 2.5)
    assert made["lora"].weight.item() == pytest.approx(1 - 0.02 * 2.5)


def test_adamw_decays_without_gradient_moments():
    made = head(2.0)
    optimiser = make_optimiser(made, OptimiserConfig(rate=0.1, decay=0.5))
    for parameter in made.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimiser.step()
    assert made["gates"].weight.item() == pytest.approx(2.0 * (1 - 0.1 * 0.5))


def test_nothing_to_learn_in_the_gates():
    made = nn.ModuleDict({"gates": nn.ModuleList(), "transforms": nn.Linear(1, 1)})
    assert len(make_optimiser(made, OptimiserConfig()).param_groups) == 1


def test_the_ema_follows_the_weights():
    ema, new = head(1.0), head(3.0)
    update_ema(ema, new, 0.75)
    assert ema["gates"].weight.item() == pytest.approx(0.75 * 1 + 0.25 * 3)
    update_ema(ema, new, 0.0)
    assert torch.equal(ema["gates"].weight, new["gates"].weight)


def test_the_ema_follows_statistics_too():
    ema, new = nn.BatchNorm1d(2), nn.BatchNorm1d(2)
    new.running_mean.fill_(4.0)
    update_ema(ema, new, 0.5)
    assert ema.running_mean.tolist() == [2.0, 2.0]
