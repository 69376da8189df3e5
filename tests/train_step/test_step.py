"""A fast step has the loss and all gradients of the straightforward one."""

from __future__ import annotations

import pytest
import torch

from dhpf.model.backbone import ResNet
from dhpf.model.network import HeadKind
from dhpf.train.config import LossConfig
from tests.train_step.pairs import Step, make_learner, ours, random_samples, straightforward

WEAK = LossConfig(objective="weak")


@pytest.fixture(scope="module")
def backbone() -> ResNet:
    return ResNet(50)


def assert_equal_steps(found: Step, expected: Step) -> None:
    assert found.loss == pytest.approx(expected.loss, rel=1e-5)
    for name, wanted in expected.gradients.items():
        error = (found.gradients[name] - wanted).norm()
        assert error <= 2e-4 * wanted.norm() + 1e-7, f"{name}: {error} of {wanted.norm()}"
    for name, wanted in expected.statistics.items():
        torch.testing.assert_close(found.statistics[name], wanted, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.parametrize("objective", ["strong", "weak"])
@pytest.mark.parametrize("once", [False, True], ids=["squared", "once"])
@pytest.mark.parametrize("statistics", ["none", "gates", "all"])
@pytest.mark.parametrize("gating", ["gumbel", "sigmoid", "none"])
def test_loss_and_gradients(
    backbone: ResNet, objective: str, once: bool, statistics: str, gating: str
) -> None:
    samples = random_samples(backbone, 4)
    kind, loss = HeadKind(gating=gating, once=once), LossConfig(objective=objective, l1=0.1)
    steps = [way(make_learner(backbone, kind, loss, statistics), samples) for way in (ours, straightforward)]
    assert_equal_steps(*steps)
    assert max(g.norm() for n, g in steps[0].gradients.items() if n.startswith("transforms")) > 1e-4
