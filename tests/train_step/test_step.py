"""A fast step has the loss and all gradients of the straightforward one."""

from __future__ import annotations

import math

import pytest
import torch

from dhpf.backbones.resnet import ResNet
from dhpf.methods.base import TrainingPair
from dhpf.methods.dhpf import DHPFConfig, DHPFObjective
from dhpf.train.step import Losses
from tests.train_step.pairs import (
    Learner,
    Step,
    as_batch,
    make_learner,
    ours,
    random_pairs,
    straightforward,
)

WEAK = DHPFObjective(objective="weak")


@pytest.fixture(scope="module")
def backbone() -> ResNet:
    return ResNet(50)


@pytest.fixture(scope="module")
def samples(backbone: ResNet) -> list[TrainingPair]:
    return random_pairs(backbone, 4)


def assert_equal_steps(found: Step, expected: Step) -> None:
    assert found.loss == pytest.approx(expected.loss, rel=1e-5)
    for name, wanted in expected.gradients.items():
        error = (found.gradients[name] - wanted).norm()
        assert error <= 2e-4 * wanted.norm() + 1e-7, f"{name}: {error} of {wanted.norm()}"
    for name, wanted in expected.statistics.items():
        torch.testing.assert_close(found.statistics[name], wanted, rtol=1e-4, atol=1e-5, msg=name)


def check(
    backbone: ResNet,
    samples: list[TrainingPair],
    config: DHPFConfig | None = None,
    objective: DHPFObjective | None = None,
) -> Step:
    """Both ways agree; returns our step."""
    found, expected = (
        way(make_learner(backbone, config, objective), samples) for way in (ours, straightforward)
    )
    assert_equal_steps(found, expected)
    return found


def switch(learner: Learner, on: dict[int, bool], strength: float = 1e3) -> None:
    """Set the gates of some layers: with enough strength certainly, whatever the noise."""
    for layer, wanted in on.items():
        last = learner.method.gates.perceptrons[layer].get_submodule("3")
        norm = learner.method.gates.perceptrons[layer].get_submodule("1")
        torch.nn.init.constant_(norm.bias, 5.0)  # the hidden values are positive
        with torch.no_grad():
            last.weight.copy_(torch.tensor([[-strength], [strength]]) * (1 if wanted else -1))


@pytest.mark.parametrize("objective", ["strong", "weak"])
@pytest.mark.parametrize("power", [2, 1])
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
    backbone: ResNet, samples: list[TrainingPair], objective: str, power: int, statistics: str, gating: str
) -> None:
    config = DHPFConfig(gating=gating, gate_power=power)
    found = check(backbone, samples, config, DHPFObjective(objective, l1=0.1, bn_mode=statistics))
    assert max(g.norm() for n, g in found.gradients.items() if n.startswith("transforms")) > 1e-4


@pytest.mark.parametrize("objective", ["strong", "weak"])
@pytest.mark.parametrize(
    "kind",
    [
        DHPFConfig(transform=False),
        DHPFConfig(hough="none"),
        DHPFConfig(hough="none", gate_power=1),
        DHPFConfig(gate_power=1, revote=True),
    ],
)
def test_ablations(backbone: ResNet, samples: list[TrainingPair], objective: str, kind: DHPFConfig) -> None:
    check(backbone, samples[:2], kind, DHPFObjective(objective=objective))


@pytest.mark.parametrize(
    "loss",
    [
        DHPFObjective(dropout=0.3),
        DHPFObjective(objective="weak", dropout=0.3),
        DHPFObjective(omega=False, target_sigma=1.5, select=0.0),
    ],
    ids=["dropout", "weak-dropout", "sigma"],
)
def test_other_settings(backbone: ResNet, samples: list[TrainingPair], loss: DHPFObjective) -> None:
    check(backbone, samples[:2], DHPFConfig(gate_power=1), loss)


@pytest.mark.parametrize("statistics", ["none", "gates", "all"])
def test_a_batch_of_one_pair(backbone: ResNet, samples: list[TrainingPair], statistics: str) -> None:
    check(backbone, samples[:1], objective=DHPFObjective(bn_mode=statistics))


@pytest.mark.parametrize("objective", ["strong", "weak"])
@pytest.mark.parametrize("power", [2, 1])
def test_all_layers_off(backbone: ResNet, samples: list[TrainingPair], objective: str, power: int) -> None:
    """Then the base block is matched, and learns."""
    steps = []
    for way in (ours, straightforward):
        learner = make_learner(
            backbone, DHPFConfig(gate_power=power), DHPFObjective(objective, bn_mode="none")
        )
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
    backbone: ResNet, samples: list[TrainingPair], objective: str
) -> None:
    off = 5
    norms = {}
    for power in (2, 1):
        loss = DHPFObjective(objective, select=0.0, bn_mode="none")
        learner = make_learner(backbone, DHPFConfig(gate_power=power), loss)
        switch(learner, {off: False}, strength=0.03)
        found = ours(learner, samples[:2])
        gate, transform = f"gates.perceptrons.{off}.3.weight", f"transforms.{off}.0.weight"
        norms[power] = found.gradients[gate].norm().item()
        assert found.gradients[transform].norm() == 0
    assert norms[2] == 0
    assert norms[1] > 0


def test_terms(backbone: ResNet, samples: list[TrainingPair]) -> None:
    learner = make_learner(backbone, DHPFConfig(gating="none"), DHPFObjective(mu=0.25, l1=2.0))
    loss, terms = Losses(*learner)(as_batch(samples))
    assert terms["layers"] == 17
    assert terms["select"].item() == pytest.approx(17 * 0.75**2)
    assert loss.item() == pytest.approx((terms["match"] + terms["select"]).item() + 2.0)
    assert 0 <= terms["pck"] <= 100


def test_a_pair_with_itself_is_surer_than_with_another(backbone: ResNet, samples: list[TrainingPair]) -> None:
    one, other = samples[0].source, samples[1].source
    nothing = torch.zeros(0, 2)
    learner = make_learner(backbone, DHPFConfig(gating="none"), WEAK)
    pairs = [TrainingPair(one, one, nothing, nothing), TrainingPair(one, other, nothing, nothing)]
    _, terms = Losses(*learner)(as_batch(pairs))
    assert 0 < terms["positive"] < terms["negative"] < math.log2(16)  # the coarse grid has 4 x 4 cells
    assert terms["match"].item() == pytest.approx((terms["positive"] / terms["negative"]).item())


def test_shares_of_two_processes_add_up(backbone: ResNet, samples: list[TrainingPair]) -> None:
    """Three pairs for two processes, whose gradients are averaged: together that of one process."""
    loss = DHPFObjective(select=0.0, bn_mode="none")
    config = DHPFConfig(gating="none")
    whole = ours(make_learner(backbone, config, loss), samples[:3])
    parts = []
    for slots in ([0], [1, 2]):
        learner = make_learner(backbone, config, loss)
        batch = as_batch([samples[n] for n in slots], slots=slots, total=3, world_size=2)
        value, _ = Losses(*learner)(batch)
        parts.append(torch.autograd.grad(value, learner.method.transforms[3].get_parameter("0.weight"))[0])
    expected = whole.gradients["transforms.3.0.weight"]
    torch.testing.assert_close((parts[0] + parts[1]) / 2, expected, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("objective", ["strong", "weak"])
def test_an_image_on_both_sides(backbone: ResNet, samples: list[TrainingPair], objective: str) -> None:
    """As a source and as a target it is normalised with other images, so it differs."""
    first, second = samples[:2]
    chain = [first, second._replace(source=first.target)]
    check(backbone, chain, objective=DHPFObjective(objective, bn_mode="all"))
