"""Hyperpixel methods: chosen layers, caching, memory, any size; against the literal method."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from dhpf import InputError
from dhpf.backbones.resnet import ResNet
from dhpf.methods.base import Matches
from dhpf.methods.dhpf import DHPF, DHPFConfig, DHPFObjective
from dhpf.methods.hpf import HPF, HPFConfig
from dhpf.methods.nearest import Nearest, NearestConfig
from tests import literal


@pytest.fixture(scope="module")
def backbone() -> ResNet:
    torch.manual_seed(0)
    return ResNet(50).for_inference()


def image(height: int, width: int, seed: int) -> torch.Tensor:
    return torch.randn(3, height, width, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def dynamic(backbone: ResNet) -> DHPF:
    """A head with random weights, whose gates differ from pair to pair."""
    torch.manual_seed(1)
    method = DHPF(backbone)
    seen = [method.features(image(64, 64, seed)).pooled for seed in (0, 1)]
    for layer, mlp in enumerate(method.gates.perceptrons):
        # centred, so that the random scores differ in sign
        mlp[1].running_mean.copy_(mlp[0]((seen[0][layer] + seen[1][layer])[None])[0])
        mlp[1].running_var.fill_(1e-6)
    return method.eval().requires_grad_(False)


def matched(method: DHPF | HPF | Nearest, a: torch.Tensor, b: torch.Tensor) -> Matches:
    return method.match(method.features(a), method.features(b))


def best(found: Matches, b: torch.Tensor, method: DHPF | HPF) -> torch.Tensor:
    """The numbers of the best target cells, from the flow."""
    grid_b = method.backbone.grid((b.shape[2], b.shape[1]))
    landed = torch.from_numpy(found.flow.grid.centres() + found.flow.displacement)
    return grid_b.nearest(landed.reshape(-1, 2))


@torch.no_grad()
@pytest.mark.parametrize("size", [(64, 64), (97, 130), (60, 33)])
def test_a_match_equals_the_literal_method(dynamic: DHPF, size: tuple[int, int]) -> None:
    chosen = set()
    for seed in range(3):
        a, b = image(*size, seed=10 + seed), image(80, 72, seed=20 + seed)
        found = matched(dynamic, a, b)
        chosen.add(found.layers)
        sides = [
            [
                dynamic.transform(n, dynamic.backbone(x[None])[n][0].permute(1, 2, 0))
                for n in found.layers or ()
            ]
            for x in (a, b)
        ]
        grids = [dynamic.backbone.grid((x.shape[2], x.shape[1])) for x in (a, b)]
        expected = literal.match(*sides, *grids)
        reached = expected.filtered.gather(1, best(found, b, dynamic)[:, None])[:, 0]
        assert_close(reached, expected.filtered.amax(1), rtol=1e-3, atol=1e-6)
    assert len(chosen) > 1  # or the test would say little of layers chosen per pair


@torch.no_grad()
def test_folding_changes_nothing_but_speed(backbone: ResNet) -> None:
    torch.manual_seed(3)
    method = DHPF(backbone).eval()
    a, b = image(64, 64, seed=3), image(64, 64, seed=4)
    before = matched(method, a, b)
    after = matched(method.for_inference(), a, b)
    assert before.layers == after.layers
    assert (before.flow.displacement == after.flow.displacement).all(-1).mean() > 0.99  # ties apart
    torch.testing.assert_close(
        torch.from_numpy(before.flow.confidence),
        torch.from_numpy(after.flow.confidence),
        rtol=1e-3,
        atol=1e-5,
    )


@torch.no_grad()
def test_all_gates_off_means_the_base_block(backbone: ResNet) -> None:
    method = DHPF(backbone).eval()
    for mlp in method.gates.perceptrons:
        torch.nn.init.zeros_(mlp[3].weight)  # both scores 0: off
    assert matched(method, image(64, 64, seed=5), image(64, 64, seed=6)).layers == (0,)


@torch.no_grad()
def test_transformations_of_layers_that_are_off_are_skipped(dynamic: DHPF) -> None:
    called = set()
    hooks = [
        transform.register_forward_hook(lambda *_, layer=layer: called.add(layer))
        for layer, transform in enumerate(dynamic.transforms)
    ]
    found = matched(dynamic, image(64, 64, seed=7), image(64, 64, seed=8))
    for hook in hooks:
        hook.remove()
    assert called == set(found.layers or ()) and len(called) < 17


@torch.no_grad()
@pytest.mark.parametrize("power", [1, 2])
def test_soft_gates_weigh_products_and_squared_norms(backbone: ResNet, power: int) -> None:
    torch.manual_seed(5)
    method = DHPF(backbone, DHPFConfig(gating="sigmoid", gate_power=power)).eval()
    a, b = image(64, 64, seed=9), image(64, 64, seed=10)
    found = matched(method, a, b)
    assert found.layer_probability is not None and found.layers == tuple(range(17))
    gates = found.layer_probability ** (power / 2)  # on each side's features
    sides = [
        [gates[n] * method.transform(n, method.backbone(x[None])[n][0].permute(1, 2, 0)) for n in range(17)]
        for x in (a, b)
    ]
    grid = backbone.grid((64, 64))
    expected = literal.match(*sides, grid, grid)
    reached = expected.filtered.gather(1, best(found, b, method)[:, None])[:, 0]
    assert_close(reached, expected.filtered.amax(1), rtol=1e-3, atol=1e-6)


@torch.no_grad()
def test_fixed_layers_use_the_blocks_as_they_are(backbone: ResNet) -> None:
    method = HPF(backbone, HPFConfig(layers=(2, 7, 11)))
    a, b = image(64, 96, seed=9), image(64, 96, seed=10)
    features = method.features(a)
    assert list(features.blocks) == [2, 7, 11] and features.grid.shape == (16, 24)
    found = method.match(features, method.features(b))
    assert found.layers == (2, 7, 11) and found.layer_probability is None
    sides = [[backbone(x[None])[n][0].permute(1, 2, 0) for n in (2, 7, 11)] for x in (a, b)]
    expected = literal.match(*sides, features.grid, features.grid)
    assert (best(found, b, method) == expected.best).float().mean() > 0.99
    pooled = 256 + 512 + 1024
    assert features.nbytes == 4 * (256 * 16 * 24 + 512 * 8 * 12 + 1024 * 4 * 6 + pooled)


@torch.no_grad()
def test_nearest_neighbours_are_those_of_one_layers_cosines(backbone: ResNet) -> None:
    method = Nearest(backbone, NearestConfig(layer=2))
    a, b = image(64, 64, seed=1), image(64, 64, seed=2)
    found = matched(method, a, b)
    assert found.layers is None and found.scores is not None
    x, y = (torch.nn.functional.normalize(backbone(i[None])[2][0].flatten(1), dim=0) for i in (a, b))
    expected = (x.T @ y).argmax(1)
    reached = (x.T @ y).gather(1, best(found, b, method)[:, None])[:, 0]
    assert_close(reached, (x.T @ y).gather(1, expected[:, None])[:, 0], rtol=1e-4, atol=1e-5)
    cells = torch.tensor([3, 77])
    similar = (x.T @ y)[cells].relu().square().mean(0)
    assert_close(found.scores.of_cells(cells), similar.view(found.scores.grid.shape), rtol=1e-4, atol=1e-5)
    assert found.flow.confidence.flat[77] == pytest.approx(found.scores.of_cells(cells[1:]).max().item())


@torch.no_grad()
def test_bounded_memory_gives_the_same_matches(dynamic: DHPF) -> None:
    a, b = (dynamic.features(image(160, 160, seed=s)) for s in (11, 12))
    kept, recomputed = dynamic.match(a, b), dynamic.match(a, b, matrix_bytes=0)
    assert (kept.flow.displacement == recomputed.flow.displacement).all()
    assert abs(kept.flow.confidence - recomputed.flow.confidence).max() < 1e-6


@pytest.mark.parametrize("size", [(64, 64), (96, 128), (160, 160), (200, 121), (240, 240), (256, 256)])
def test_an_image_matches_itself_at_any_size(backbone: ResNet, size: tuple[int, int]) -> None:
    method = HPF(backbone, HPFConfig(layers=(0, 2, 5)))
    photo = image(*size, seed=13)
    assert (matched(method, photo, photo).flow.displacement == 0).all(-1).mean() > 0.99


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda b: DHPFConfig(gating="gumble"), "gating = 'gumble'; wanted: gumbel, sigmoid, none"),
        (lambda b: DHPFConfig(gate_power=3), "gate_power = 3; wanted: 1 or 2"),
        (lambda b: DHPFConfig(gating="none", transform=False), "nothing to learn"),
        (lambda b: DHPFConfig(hough="no"), "hough = 'no'; wanted: exact, published, none"),
        (lambda b: DHPFConfig(hough="none", revote=True), "revote = true votes again"),
        (lambda b: DHPFObjective(objective="strng"), "objective = 'strng'; wanted: strong or weak"),
        (lambda b: DHPFObjective(mu=1.5), "mu = 1.5; wanted from 0 to 1"),
        (lambda b: HPF(b, HPFConfig()), r"layers = \[\]; wanted: some of the layers 0 to 16"),
        (lambda b: HPF(b, HPFConfig(layers=(3, 17))), "some of the layers 0 to 16"),
        (lambda b: Nearest(b, NearestConfig(layer=17)), "layer = 17; wanted: from -17 to 16"),
    ],
)
def test_settings_that_make_no_sense(backbone: ResNet, make, says: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=says):
        make(backbone)
