"""Networks: chosen layers, batches, caching, memory, any size."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from dhpf.model.backbone import ResNet
from dhpf.model.network import DHPF, HPF
from tests import literal


@pytest.fixture(scope="module")
def backbone() -> ResNet:
    torch.manual_seed(0)
    return ResNet(50).folded()


@pytest.fixture(scope="module")
def dynamic(backbone: ResNet) -> DHPF:
    """A head with random weights, whose gates differ from pair to pair."""
    torch.manual_seed(1)
    network = DHPF(backbone)
    pooled = network.features(images(2, 64, 64, seed=0)).pooled
    for mlp, mean in zip(network.gates.perceptrons, pooled, strict=True):
        mlp[1].running_mean.copy_(
            mlp[0](2 * mean).mean(0)
        )  # centred, so that the random scores differ in sign
        mlp[1].running_var.fill_(1e-6)
    return network.eval().requires_grad_(False)


def images(count: int, height: int, width: int, seed: int) -> torch.Tensor:
    return torch.randn(count, 3, height, width, generator=torch.Generator().manual_seed(seed))


def literal_best(
    network: DHPF, layers: tuple[int, ...], a: torch.Tensor, b: torch.Tensor
) -> literal.LiteralMatch:
    blocks_a, blocks_b = network.backbone(a), network.backbone(b)
    grids = [tuple(blocks[0].shape[2:]) for blocks in (blocks_a, blocks_b)]
    chosen = [[network.transforms[n](blocks[n])[0] for n in layers] for blocks in (blocks_a, blocks_b)]
    return literal.match(*chosen, *grids, tuple(a.shape[2:]), tuple(b.shape[2:]))


@torch.no_grad()
@pytest.mark.parametrize("size", [(64, 64), (97, 130), (60, 33)])
def test_a_batch_equals_its_pairs_and_the_literal_method(dynamic: DHPF, size: tuple[int, int]) -> None:
    a, b = images(3, *size, seed=1), images(3, 80, 72, seed=2)
    together = dynamic(a, b)
    assert len(set(together.layers)) > 1  # or the test would say little of layers chosen per pair
    for index in range(3):
        alone = dynamic(a[index : index + 1], b[index : index + 1])
        assert alone.layers[0] == together.layers[index]
        assert torch.equal(alone.best[0], together.best[index])
        expected = literal_best(dynamic, alone.layers[0], a[index : index + 1], b[index : index + 1])
        reached = expected.filtered.gather(1, alone.best[0][:, None])[:, 0]
        assert_close(reached, expected.filtered.amax(1), rtol=1e-3, atol=1e-6)


@torch.no_grad()
def test_folding_changes_nothing_but_speed(backbone: ResNet) -> None:
    torch.manual_seed(3)
    network = DHPF(backbone).eval()
    a, b = images(1, 64, 64, seed=3), images(1, 64, 64, seed=4)
    before = network(a, b)
    after = network.folded()(a, b)
    assert before.layers == after.layers
    assert (before.best == after.best).float().mean() > 0.99  # ties apart
    assert_close(before.confidence, after.confidence, rtol=1e-3, atol=1e-5)


@torch.no_grad()
def test_all_gates_off_means_the_base_block(backbone: ResNet) -> None:
    network = DHPF(backbone).eval()
    for mlp in network.gates.perceptrons:
        torch.nn.init.zeros_(mlp[3].weight)  # both scores 0: off
    result = network(images(1, 64, 64, seed=5), images(1, 64, 64, seed=6))
    assert result.layers == ((0,),)


@torch.no_grad()
def test_transformations_of_layers_that_are_off_are_skipped(dynamic: DHPF) -> None:
    called = set()
    hooks = [
        transform.register_forward_hook(lambda *_, layer=layer: called.add(layer))
        for layer, transform in enumerate(dynamic.transforms)
    ]
    result = dynamic(images(1, 64, 64, seed=7), images(1, 64, 64, seed=8))
    for hook in hooks:
        hook.remove()
    assert called == set(result.layers[0]) and len(called) < 17


@torch.no_grad()
def test_fixed_layers_use_the_blocks_as_they_are(backbone: ResNet) -> None:
    network = HPF(backbone, (2, 7, 11))
    a, b = images(2, 64, 96, seed=9), images(2, 64, 96, seed=10)
    features = network.features(a)
    assert list(features.blocks) == [2, 7, 11] and features.grid == (16, 24)
    result = network.match(features, network.features(b))
    assert result.layers == ((2, 7, 11),) * 2 and result.probability is None
    blocks = network.backbone(a), network.backbone(b)
    chosen = [[side[n][1] for n in (2, 7, 11)] for side in blocks]
    expected = literal.match(*chosen, (16, 24), (16, 24), (64, 96), (64, 96))
    assert (result.best[1] == expected.best).float().mean() > 0.99
    assert features.nbytes == 4 * 2 * (256 * 16 * 24 + 512 * 8 * 12 + 1024 * 4 * 6)


@torch.no_grad()
def test_bounded_memory_gives_the_same_matches(dynamic: DHPF) -> None:
    a, b = (dynamic.features(images(1, 160, 160, seed=s)) for s in (11, 12))
    kept, recomputed = dynamic.match(a, b), dynamic.match(a, b, matrix_bytes=0)
    assert torch.equal(kept.best, recomputed.best)
    assert_close(kept.confidence, recomputed.confidence)


@pytest.mark.parametrize("size", [(64, 64), (96, 128), (160, 160), (200, 121), (240, 240), (256, 256)])
def test_a_photo_matches_itself_at_any_size(backbone: ResNet, size: tuple[int, int]) -> None:
    network = HPF(backbone, (0, 2, 5))
    photo = images(1, *size, seed=13)
    result = network(photo, photo)
    assert (result.best[0] == torch.arange(result.best.shape[1])).float().mean() > 0.99
