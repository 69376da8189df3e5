"""A head over some layers of a backbone is the head over a backbone that has no others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from dhpf.backbones.base import Backbone, Features
from dhpf.errors import InputError
from dhpf.grid import Grid, Size
from dhpf.methods.base import Batch, TrainingPair
from dhpf.methods.dhpf import DHPF, DHPFConfig, DHPFObjective

CHANNELS = (8, 4, 16, 8)
SOME = (1, 2)
VARIANTS = (
    DHPFConfig(gate_power=1, perceptron=4, readout="soft-argmax"),
    DHPFConfig(),
    DHPFConfig(gating="sigmoid", gate_power=1),
    DHPFConfig(transform=False),
)


class Stub(Backbone):
    """Blocks of any channels on one grid."""

    title = "stub"

    def __init__(self, channels: Sequence[int]) -> None:
        super().__init__()
        self.channels = tuple(channels)
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def grid(self, size: Size) -> Grid:
        return Grid(size[1] // 8, size[0] // 8, 8.0, 3.5)

    def forward(self, images: Tensor, layers: Sequence[int] | None = None) -> dict[int, Tensor]:
        raise NotImplementedError


def features(seed: int) -> Features:
    generator = torch.Generator().manual_seed(seed)
    blocks = {n: torch.randn(6, 5, count, generator=generator).relu() for n, count in enumerate(CHANNELS)}
    pooled = {n: block.mean((0, 1)) for n, block in blocks.items()}
    return Features(blocks, pooled, Grid(6, 5, 8.0, 3.5))


def without_the_others(whole: Features) -> Features:
    blocks, pooled = (
        {n: kept[layer] for n, layer in enumerate(SOME)} for kept in (whole.blocks, whole.pooled)
    )
    return replace(whole, blocks=blocks, pooled=pooled)


def both(config: DHPFConfig) -> tuple[DHPF, DHPF]:
    """Prepared from the same images: over some layers of a backbone, over a backbone of those layers."""
    some = DHPF(Stub(CHANNELS), replace(config, layers=SOME))
    alone = DHPF(Stub([CHANNELS[layer] for layer in SOME]), config)
    samples = [features(seed) for seed in range(4)]
    some.prepare(samples, torch.Generator().manual_seed(5), "random")
    alone.prepare([*map(without_the_others, samples)], torch.Generator().manual_seed(5), "random")
    return some, alone


@pytest.mark.parametrize("config", VARIANTS, ids=repr)
def test_matching(config: DHPFConfig) -> None:
    some, alone = (method.for_inference() for method in both(config))
    a, b = features(8), features(9)
    found = some.match(a, b)
    wanted = alone.match(without_the_others(a), without_the_others(b))
    assert_close(found.flow.displacement, wanted.flow.displacement)
    assert_close(found.flow.confidence, wanted.flow.confidence)
    assert wanted.layers is not None and wanted.layer_probability is not None
    assert found.layers == tuple(SOME[n] for n in wanted.layers)
    one, two = wanted.layer_probability
    assert_close(found.layer_probability, torch.tensor([0.0, one, two, 0.0]))


@pytest.mark.parametrize("config", VARIANTS, ids=repr)
@pytest.mark.parametrize("bn_mode", ["gates", "all"])
def test_training(config: DHPFConfig, bn_mode: str) -> None:
    gradients = []
    for method, seen in zip(both(config), (lambda x: x, without_the_others), strict=True):
        points = torch.tensor([[4.0, 4.0], [30.0, 40.0]])
        pairs = [
            TrainingPair(seen(features(n)), seen(features(n + 1)), points, points + 3) for n in (1, 2, 3)
        ]
        batch = Batch(pairs, range(3), 3, torch.Generator().manual_seed(0))
        losses = method.losses(batch, DHPFObjective(bn_mode=bn_mode, dropout=0.3, noise=0.2, l1=0.1))
        torch.stack([term for name, term in losses.items() if not name.startswith("_")]).sum().backward()
        gradients.append([p.grad for p in method.head().parameters() if p.grad is not None])
    assert len(gradients[0]) > 2
    for found, wanted in zip(*gradients, strict=True):
        assert_close(found, wanted)


@pytest.mark.parametrize("layers", [(2, 1), (1, 1), (4,), (0, -4)])
def test_layers_that_make_no_sense(layers: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="wanted"):
        DHPF(Stub(CHANNELS), DHPFConfig(layers=layers))


def test_layers_may_be_counted_from_the_end() -> None:
    assert DHPF(Stub(CHANNELS), DHPFConfig(layers=(-3, -1))).layers == (1, 3)
