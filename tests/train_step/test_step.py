"""A fast step has the loss and all gradients of the straightforward one."""

from __future__ import annotations

import math

import pytest
import torch

from dhpf.model.backbone import ResNet
from dhpf.model.network import HeadKind
from dhpf.train.batches import Sample
from dhpf.train.config import LossConfig
from dhpf.train.step import Learner
from tests.train_step.pairs import (
    Step,
    make_learner,
    ours,
    position_of,
    random_samples,
    straightforward,
)

WEAK = LossConfig(objective="weak")


@pytest.fixture(scope="module")
def backbone() -> ResNet:
    return ResNet(50)


@pytest.fixture(scope="module")
def samples(backbone: ResNet) -> list[Sample]:
    return random_samples(backbone, 4)


def assert_equal_steps(found: Step, expected: Step) -> None:
    assert found.loss == pytest.approx(expected.loss, rel=1e-5)
    for name, wanted in expected.gradients.items():
        error = (found.gradients[name] - wanted).norm()
        assert error <= 2e-4 * wanted.norm() + 1e-7, f"{name}: {error} of {wanted.norm()}"
    for name, wanted in expected.statistics.items():
        torch.testing.assert_close(found.statistics[name], wanted, rtol=1e-4, atol=1e-5, msg=name)


def check(
    backbone: ResNet,
    samples: list[Sample],
    kind: HeadKind | None = None,
    loss: LossConfig | None = None,
    statistics: str = "gates",
) -> Step:
    """Both ways agree; returns our step."""
    found, expected = (
        way(make_learner(backbone, kind, loss, statistics), samples) for way in (ours, straightforward)
    )
    assert_equal_steps(found, expected)
    return found


def switch(learner: Learner, on: dict[int, bool], strength: float = 1e3) -> None:
    """Set the gates of some layers: with enough strength certainly, whatever the noise."""
    for layer, wanted in on.items():
        last = learner.network.gates.perceptrons[layer].get_submodule("3")
        norm = learner.network.gates.perceptrons[layer].get_submodule("1")
        torch.nn.init.constant_(norm.bias, 5.0)  # the hidden values are positive
        with torch.no_grad():
            last.weight.copy_(torch.tensor([[-strength], [strength]]) * (1 if wanted else -1))


@pytest.mark.parametrize("objective", ["strong", "weak"])
@pytest.mark.parametrize("once", [False, True], ids=["squared", "once"])
@pytest.mark.parametrize(
    ("statistics", "gating"),
    [
        ("none", "gumbel"),
        ("gates", "gumbel"),
        ("all", "gumbel"),
        ("gates", "sigmoid"),
        ("all", "sigmoid"),
        ("none", "none"),
        ("all", "none"),
    ],
)
def test_loss_and_gradients(
    backbone: ResNet, samples: list[Sample], objective: str, once: bool, statistics: str, gating: str
) -> None:
    kind, loss = HeadKind(gating=gating, once=once), LossConfig(objective=objective, l1=0.1)
    found = check(backbone, samples, kind, loss, statistics)
    assert max(g.norm() for n, g in found.gradients.items() if n.startswith("transforms")) > 1e-4


@pytest.mark.parametrize("objective", ["strong", "weak"])
@pytest.mark.parametrize(
    "kind",
    [
        HeadKind(transform=False),
        HeadKind(hough=False),
        HeadKind(hough=False, once=True),
        HeadKind(once=True, motion=True),
    ],
)
def test_ablations(backbone: ResNet, samples: list[Sample], objective: str, kind: HeadKind) -> None:
    check(backbone, samples[:2], kind, LossConfig(objective=objective))


@pytest.mark.parametrize(
    "loss",
    [
        LossConfig(dropout=0.3),
        LossConfig(objective="weak", dropout=0.3),
        LossConfig(omega=False, spread=1.5, select=0.0),
    ],
    ids=["dropout", "weak-dropout", "spread"],
)
def test_other_settings(backbone: ResNet, samples: list[Sample], loss: LossConfig) -> None:
    check(backbone, samples[:2], HeadKind(once=True), loss)


@pytest.mark.parametrize("statistics", ["none", "gates", "all"])
def test_a_batch_of_one_pair(backbone: ResNet, samples: list[Sample], statistics: str) -> None:
    check(backbone, samples[:1], statistics=statistics)


@pytest.mark.parametrize("objective", ["strong", "weak"])
@pytest.mark.parametrize("once", [False, True], ids=["squared", "once"])
def test_all_layers_off(backbone: ResNet, samples: list[Sample], objective: str, once: bool) -> None:
    """Then the base block is matched, and learns."""
    steps = []
    for way in (ours, straightforward):
        learner = make_learner(backbone, HeadKind(once=once), LossConfig(objective=objective), "none")
        switch(learner, dict.fromkeys(range(17), False))
        steps.append(way(learner, samples[:2]))
    assert_equal_steps(*steps)
    assert steps[0].gradients["transforms.0.0.weight"].norm() > 1e-5
    others = [
        n for n in steps[0].gradients if n.startswith("transforms") and not n.startswith("transforms.0.")
    ]
    assert len(others) == 16 * 3
    assert all(steps[0].gradients[name].norm() == 0 for name in others)


@pytest.mark.parametrize("objective", ["strong", "weak"])
def test_a_layer_that_is_off_learns_from_a_gate_that_enters_once(
    backbone: ResNet, samples: list[Sample], objective: str
) -> None:
    off = 5
    norms = {}
    for once in (False, True):
        loss = LossConfig(objective=objective, select=0.0)
        learner = make_learner(backbone, HeadKind(once=once), loss, "none")
        switch(learner, {off: False}, strength=0.03)
        found = ours(learner, samples[:2])
        gate, transform = f"gates.perceptrons.{off}.3.weight", f"transforms.{off}.0.weight"
        norms[once] = found.gradients[gate].norm().item()
        assert found.gradients[transform].norm() == 0
    assert norms[False] == 0
    assert norms[True] > 0


def test_terms(backbone: ResNet, samples: list[Sample]) -> None:
    learner = make_learner(backbone, HeadKind(gating="none"), LossConfig(mu=0.25, l1=2.0))
    result = learner(position_of(learner, samples), samples)
    assert result.terms["layers"] == 17
    assert result.terms["select"] == pytest.approx(17 * 0.75**2)
    assert result.loss.item() == pytest.approx(result.terms["match"] + result.terms["select"] + 2.0)
    assert 0 <= result.terms["pck"] <= 100


def test_a_pair_with_itself_is_surer_than_with_another(backbone: ResNet, samples: list[Sample]) -> None:
    one, other = samples[0].source, samples[1].source
    nothing = torch.zeros(0, 2)
    learner = make_learner(backbone, HeadKind(gating="none"), WEAK)
    pairs = [Sample(one, one, nothing, nothing), Sample(one, other, nothing, nothing)]
    terms = learner(position_of(learner, pairs), pairs).terms
    assert 0 < terms["positive"] < terms["negative"] < math.log2(16)  # the coarse grid has 4 x 4 cells
    assert terms["match"] == pytest.approx(terms["positive"] / terms["negative"])


def test_shares_of_two_processes_add_up(backbone: ResNet, samples: list[Sample]) -> None:
    """Three pairs for two processes, whose gradients are averaged: together that of one process."""
    loss = LossConfig(select=0.0)
    whole = ours(make_learner(backbone, HeadKind(gating="none"), loss, "none"), samples[:3])
    parts = []
    for rank, own in enumerate((samples[:1], samples[1:3])):
        learner = make_learner(backbone, HeadKind(gating="none"), loss, "none")
        learner.share = rank, 2
        result = learner(position_of(learner, samples[:3]), own)
        parts.append(torch.autograd.grad(result.loss, learner.network.transforms[3][0].weight)[0])
    expected = whole.gradients["transforms.3.0.weight"]
    torch.testing.assert_close((parts[0] + parts[1]) / 2, expected, rtol=1e-4, atol=1e-7)
