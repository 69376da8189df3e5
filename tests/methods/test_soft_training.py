"""Training for soft-argmax: the loss by its definition, what it teaches, and where it begins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from dhpf import InputError
from dhpf.backbones.base import Backbone, Features, extract
from dhpf.backbones.weights import load_backbone
from dhpf.grid import Grid, Size
from dhpf.methods.base import Batch, TrainingPair
from dhpf.methods.dhpf import DHPF, DHPFConfig, DHPFObjective
from dhpf.model.transform import Perceptron

OBJECTIVE = DHPFObjective(omega=False, select=0.0, target_sigma=0.8, bn_mode="none")


class Stub(Backbone):
    """Two layers of six channels, 14 pixels apart."""

    title, channels, multiple = "stub", (6, 6), 14

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def grid(self, size: Size) -> Grid:
        columns, rows = (2 * (side // 14) - 1 for side in size)
        return Grid(rows, columns, 7.0, 6.5)

    def forward(self, images: Tensor, layers: Sequence[int] | None = None) -> dict[int, Tensor]:
        raise NotImplementedError


def features(rows: int, columns: int, seed: int) -> Features:
    generator = torch.Generator().manual_seed(seed)
    blocks = {layer: torch.randn(rows, columns, 6, generator=generator) for layer in (0, 1)}
    pooled = {layer: block.mean((0, 1)) for layer, block in blocks.items()}
    return Features(blocks, pooled, Grid(2 * rows - 1, 2 * columns - 1, 7.0, 6.5))


def learner(gating: str = "none", width: int = 4) -> DHPF:
    torch.manual_seed(0)
    config = DHPFConfig(gating=gating, gate_power=1, perceptron=width, readout="soft-argmax")
    return DHPF(Stub(), config)


def one_pair() -> TrainingPair:
    points = torch.tensor([[7.0, 21.0], [30.0, 10.0], [20.0, 13.0]])
    truth = torch.tensor([[20.0, 20.0], [9.0, 40.0], [33.0, 6.0]])
    return TrainingPair(features(4, 4, 1), features(4, 4, 2), points, truth)


def batch(pair: TrainingPair) -> Batch:
    return Batch([pair], [0], 1, torch.Generator().manual_seed(0))


def literal_loss(method: DHPF, pair: TrainingPair) -> float:
    """Both directions, point by point and cell by cell."""

    def hyperimage(side: Features) -> Tensor:
        return (
            torch.cat([method.transforms[layer](side.blocks[layer]) for layer in (0, 1)], 2).double().detach()
        )

    def direction(a: Features, b: Features, points: Tensor, truths: Tensor) -> float:
        image_a, image_b = hyperimage(a), hyperimage(b)
        losses = []
        for point, truth in zip(points.tolist(), truths.tolist(), strict=True):
            x, y = (round((value - 6.5) / 7) / 2 for value in point)  # in patches, by halves
            x0, y0 = min(int(x), image_a.shape[1] - 2), min(int(y), image_a.shape[0] - 2)
            weights = {
                (y0 + j, x0 + i): (1 - abs(y - y0 - j)) * (1 - abs(x - x0 - i))
                for j in (0, 1)
                for i in (0, 1)
            }
            feature = sum(weight * image_a[place] for place, weight in weights.items())
            scores, targets = [], []
            for j in range(image_b.shape[0]):
                for i in range(image_b.shape[1]):
                    other = image_b[j, i]
                    scores.append(float(feature @ other / (feature.norm() * other.norm()) / 0.05))
                    distance = ((truth[0] - 6.5) / 14 - i) ** 2 + ((truth[1] - 6.5) / 14 - j) ** 2
                    targets.append(np.exp(-distance / (2 * 0.8**2)))
            log_probability = np.array(scores) - np.log(np.exp(scores).sum())
            losses.append(-(np.array(targets) / np.sum(targets) * log_probability).sum())
        return float(np.mean(losses))

    there = direction(pair.source, pair.target, pair.source_points, pair.target_points)
    return (there + direction(pair.target, pair.source, pair.target_points, pair.source_points)) / 2


def test_the_loss_by_its_definition() -> None:
    method, pair = learner(), one_pair()
    terms = method.losses(batch(pair), OBJECTIVE)
    assert float(terms["match"].detach()) == pytest.approx(literal_loss(method, pair), rel=1e-4)


def test_everything_learns() -> None:
    method = learner("gumbel")
    head = method.head().requires_grad_(True)
    for seed in range(8):  # a layer that is off learns nothing in that step
        step = Batch([one_pair()], [0], 1, torch.Generator().manual_seed(seed))
        method.losses(step, OBJECTIVE)["match"].backward()
    for name, value in head.named_parameters():
        assert value.grad is not None and float(value.grad.abs().max()) > 0, name


def test_steps_lower_the_loss_and_find_the_points() -> None:
    method, pair = learner(width=6), one_pair()
    optimiser = torch.optim.AdamW(method.head().requires_grad_(True).parameters(), lr=0.02)
    for _ in range(150):
        optimiser.zero_grad()
        method.losses(batch(pair), DHPFObjective(omega=False, select=0.0, bn_mode="none"))["match"].backward()
        optimiser.step()
    found = method.eval().match(pair.source, pair.target)
    landed = found.flow.transfer(pair.source_points.double().numpy())
    # Within a patch: cells are 14 pixels apart, and the nearest source cell moves a point.
    assert np.abs(landed - pair.target_points.numpy()).max() < 14


def test_a_perceptron_by_its_definition() -> None:
    perceptron, blocks = Perceptron(6, 4), features(3, 3, 5).blocks[0]
    perceptron.mean.uniform_(-2, 2)
    perceptron.deviation.uniform_(0.5, 3)
    standard = (blocks - perceptron.mean) / perceptron.deviation
    hidden = perceptron.hidden(standard)
    gelu = hidden * (1 + torch.erf(hidden / 2**0.5)) / 2
    assert_close(perceptron(blocks), perceptron.linear(standard) + perceptron.out(gelu))


def test_it_begins_with_principal_directions() -> None:
    method = learner(width=6)
    samples = [features(5, 7, seed) for seed in range(4)]
    method.prepare(samples, torch.Generator().manual_seed(0), "principal")
    pixels = torch.cat([one.blocks[1].flatten(0, 1) for one in samples])
    standard = (pixels - pixels.mean(0)) / pixels.std(0)
    begun = method.transforms[1](pixels)
    # As many directions as channels: a rotation, which leaves all cosines as they are.
    cosines = [torch.nn.functional.normalize(each, dim=1) for each in (begun, standard)]
    assert_close(cosines[0] @ cosines[0].T, cosines[1] @ cosines[1].T, atol=1e-4, rtol=0)
    assert_close(begun.square().sum(1).mean(), torch.tensor(1.0), atol=1e-3, rtol=0)
    earlier = method.transforms[0](torch.cat([one.blocks[0].flatten(0, 1) for one in samples]))
    assert_close(earlier.square().sum(1).mean(), torch.tensor(0.5), atol=1e-3, rtol=0)  # deep layers ahead


def test_features_are_transformed_once_and_match_the_same() -> None:
    method, pair = learner("gumbel").for_inference(), one_pair()
    blocks = {layer: method.transform(layer, block) for layer, block in pair.source.blocks.items()}
    ready = Features(blocks, pair.source.pooled, pair.source.grid, transformed=True)
    found, expected = method.match(ready, pair.target), method.match(pair.source, pair.target)
    assert found.layers == expected.layers
    np.testing.assert_array_equal(found.flow.displacement, expected.flow.displacement)


def test_a_scaled_temperature_is_that_of_matching_alone() -> None:
    """Half the scale matches as half the temperature; what is learned does not depend on it."""
    pair, halved, scaled = one_pair(), learner(), learner()
    with torch.no_grad():
        halved.temperature.log -= math.log(2)
    scaled.config = replace(scaled.config, temperature_scale=0.5)
    found, expected, plain = (
        one.eval().match(pair.source, pair.target) for one in (scaled, halved, learner())
    )
    np.testing.assert_allclose(found.flow.displacement, expected.flow.displacement, rtol=1e-5, atol=1e-4)
    assert found.flow.confidence.mean() > plain.flow.confidence.mean()  # sharper
    losses = [float(one.losses(batch(pair), OBJECTIVE)["match"].detach()) for one in (scaled, learner())]
    assert losses[0] == losses[1]


def test_an_image_of_several_pairs_is_transformed_once() -> None:
    """With the loss and the gradients of images that are read anew for each pair."""
    images = [features(4, 4, seed) for seed in (1, 2, 3)]
    points, truth = one_pair().source_points, one_pair().target_points
    ends = ((0, 1, 3), (1, 2, 1), (0, 2, 2), (1, 1, 2))  # the last: two objects of one image
    shared = [TrainingPair(images[a], images[b], points[:k], truth[:k]) for a, b, k in ends]
    apart = [pair._replace(source=replace(pair.source), target=replace(pair.target)) for pair in shared]
    seen = []
    for pairs in (shared, apart):
        method = learner("gumbel")
        head = method.head().requires_grad_(True)
        counted: list[int] = []
        for part in method.transforms:
            part.register_forward_hook(lambda _, inputs, __, counted=counted: counted.append(len(inputs[0])))
        step = Batch(pairs, [0, 1, 2, 3], 4, torch.Generator().manual_seed(4))
        objective = DHPFObjective(omega=False, target_sigma=0.8, noise=0.5)
        loss = method.losses(step, objective)["match"]
        loss.backward()
        seen.append((float(loss.detach()), sum(counted), [p.grad for p in head.parameters()]))
    assert (seen[0][1], seen[1][1]) == (2 * 3, 2 * 8)  # two layers
    assert seen[0][0] == pytest.approx(seen[1][0], rel=1e-5)
    for one, other in zip(seen[0][2], seen[1][2], strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def updated_gradient(bfloat16: bool) -> tuple[float, Tensor]:
    """The loss of one pair over a real transformer, and the gradient of what is added to one matrix."""
    backbone = load_backbone("dinov2-vits14")
    generator = torch.Generator().manual_seed(0)
    a, b = (extract(backbone, torch.randn(3, 112, 112, generator=generator)) for _ in "ab")
    config = DHPFConfig(gating="none", perceptron=16, readout="soft-argmax", lora_blocks=2)
    method = DHPF(backbone, config)
    method.prepare([a, b], generator, "principal")
    head = method.head().requires_grad_(True)
    points = torch.tensor([[20.0, 30.0], [80.0, 90.0], [55.0, 10.0]])
    objective = replace(OBJECTIVE, bfloat16=bfloat16)
    loss = method.losses(batch(TrainingPair(a, b, points, points.flip(1))), objective)["match"]
    loss.backward()
    gradient = head.get_parameter("lora.blocks.0.qkv.up").grad
    assert gradient is not None
    return float(loss.detach()), gradient.flatten()


def test_updates_learn_in_bfloat16_what_they_learn_in_float32() -> None:
    (exact, wanted), (loss, found) = updated_gradient(False), updated_gradient(True)
    assert loss == pytest.approx(exact, rel=0.01)  # 8 bits
    assert torch.equal(found, wanted) != torch.cpu._is_avx512_bf16_supported()
    assert float(torch.cosine_similarity(found, wanted, dim=0)) > 0.99


def test_batch_norms_keep_their_precision_in_bfloat16() -> None:
    backbone = load_backbone("dinov2-vits14")
    generator = torch.Generator().manual_seed(0)
    a, b = (extract(backbone, torch.randn(3, 56, 56, generator=generator)) for _ in "ab")
    points = torch.tensor([[20.0, 30.0], [41.0, 8.0]])
    kept = []
    for bfloat16 in (False, True):
        method = DHPF(backbone, DHPFConfig(gating="none", readout="soft-argmax"))
        method.prepare([a, b], torch.Generator().manual_seed(1))
        objective = replace(OBJECTIVE, bn_mode="all", bfloat16=bfloat16)
        method.losses(batch(TrainingPair(a, b, points, points.flip(1))), objective)
        kept.append(method.transforms[11].get_buffer("1.running_var"))
    exact, found = kept
    assert found.dtype == torch.float32
    assert_close(found, exact, rtol=0.01, atol=0)  # 8 bits in the products, none lost in the moments


@pytest.mark.parametrize(("layers", "needed"), [((9, 10, 11), 8), ((8, 10), 11)])
def test_updates_need_the_layer_before_them_and_the_last(layers: tuple[int, ...], needed: int) -> None:
    with pytest.raises(InputError, match=f"lora_blocks = 3 needs layer {needed}; add it to layers"):
        DHPF(load_backbone("dinov2-vits14"), DHPFConfig(layers=layers, lora_blocks=3))
