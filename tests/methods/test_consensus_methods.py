"""NC-Net, DCC-Net and SF-Net on drawn features: terms by hand, training lowers the loss, heads round trip."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from dhpf import InputError, Matcher, load
from dhpf.backbones.base import Features
from dhpf.backbones.weights import find_backbone, load_backbone
from dhpf.grid import Grid
from dhpf.heads import read_head, save_head
from dhpf.methods import find_method
from dhpf.methods.base import Batch, Method, TrainingPair
from dhpf.methods.dccnet import DCCNet, DCCNetConfig, Fusion, self_similarity
from dhpf.methods.ncnet import NCNet, NCNetConfig, weak_loss
from dhpf.methods.sfnet import SFNet, SFNetConfig, flow_terms
from dhpf.train.config import make_config
from dhpf.train.step import Losses, training_step

from ..conftest import texture
from ..test_own_backbone_and_method import TwoConvolutions

SMALL: dict[str, Method] = {
    "ncnet": NCNet(TwoConvolutions(), NCNetConfig(layer=0, channels=4)),
    "dccnet": DCCNet(TwoConvolutions(), DCCNetConfig(layer=0, channels=4, reach=1, reduced=8)),
    "sfnet": SFNet(TwoConvolutions(), SFNetConfig(layers=(0, 1), channels=8, sigma=1.0)),
}
GRID = Grid(6, 6, stride=8.0, offset=3.5)


def features(seed: int, shift: int = 0) -> Features:
    """Of a wide drawn texture that is cut out ``shift`` columns farther to the right."""
    generator = torch.Generator().manual_seed(seed)
    wide = [torch.randn(6, 8, 3, generator=generator) for _ in range(2)]
    blocks = {layer: block[:, shift : shift + 6].half() for layer, block in enumerate(wide)}
    return Features(blocks, {layer: block.mean((0, 1)) for layer, block in blocks.items()}, GRID)


def prepared(name: str) -> Method:
    method = find_method(name)(TwoConvolutions(), SMALL[name].config)
    method.prepare([features(n) for n in range(4)], torch.Generator().manual_seed(0), method.inits[-1])
    return method


def batch() -> Batch:
    """A pair that is shifted by a column; and, as negatives come last, one of two different textures."""
    none, mask = torch.zeros(0, 2), torch.zeros(6, 6)
    mask[1:5, 2:4] = 1
    pairs = [TrainingPair(features(7), features(n), none, none) for n in (7, 8)]
    pairs[0] = pairs[0]._replace(target=features(7, shift=1))
    masks = [(mask, mask.roll(-1, 1))] * 2
    return Batch(pairs, range(2), 2, torch.Generator().manual_seed(0), masks=masks)


@pytest.mark.parametrize("name", SMALL)
def test_it_finds_a_shift(name: str) -> None:
    found = prepared(name).match(features(7), features(7, shift=1))
    inner = found.flow.displacement[1:-1, 2:-1]
    assert np.abs(np.median(inner, axis=(0, 1)) - [-8, 0]).max() < 0.5  # one cell to the left
    assert found.layers is None
    assert found.scores is not None and SMALL[name].keeps_scores
    best = found.scores.of_cells(torch.tensor([2 * 6 + 3])).argmax().item()
    assert best == 2 * 6 + 2
    assert found.scores.of_cells(torch.arange(36)).sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("name", SMALL)
def test_training_lowers_the_loss_and_leaves_the_backbone(name: str) -> None:
    method = prepared(name)
    backbone = {key: value.clone() for key, value in method.backbone.state_dict().items()}
    head, losses = method.head(), Losses(method, method.Objective())
    optimiser = torch.optim.AdamW(head.parameters(), lr=3e-3)
    seen = [training_step(losses, batch(), optimiser)["loss"] for _ in range(6)]
    assert seen[-1] < seen[0] - 1e-3
    assert all(torch.equal(backbone[key], value) for key, value in method.backbone.state_dict().items())


@pytest.mark.parametrize("name", ["ncnet", "dccnet"])
def test_two_processes_take_the_loss_of_one(name: str) -> None:
    """Each has one positive and one negative pair of two; gradients are averaged."""
    method, objective = prepared(name), find_method(name).Objective()
    pairs = [batch().pairs[n] for n in (0, 0, 1, 1)]
    whole = method.losses(batch()._replace(pairs=pairs, total=4), objective)
    share = method.losses(batch()._replace(total=4, world_size=2), objective)
    for key in whole:
        torch.testing.assert_close(share[key], whole[key])


def test_weak_loss_by_hand() -> None:
    terms = weak_loss(torch.tensor([0.7, 0.5, 0.2, 0.3]), batch()._replace(total=4))
    assert {key: round(float(value), 6) for key, value in terms.items()} == {
        "match": -0.35,  # 0.25 - 0.6
        "_positive": 0.6,
        "_negative": 0.25,
    }


def test_terms_of_dccnet_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cells each. Every cell chooses with odds of 9 to 1 by appearance and 1 to 1 by context in the
    positive pair, so 3 to 1 by both, of equal weights; 1 to 1 and 4 to 1, so 2 to 1, in the negative one."""
    method = prepared("dccnet")
    planted = iter([(9.0, 1.0), (1.0, 4.0)])
    monkeypatch.setattr(
        method, "kinds", lambda a, b: [odds * torch.eye(2) for odds in torch.tensor(next(planted)).log()]
    )
    two = Features({0: torch.zeros(1, 2, 3)}, {}, Grid(1, 2, stride=8.0))
    pairs = [TrainingPair(two, two, torch.zeros(0, 2), torch.zeros(0, 2))] * 2
    found = method.losses(batch()._replace(pairs=pairs), method.Objective(auxiliary=0.25))
    assert {key: value.item() for key, value in found.items()} == pytest.approx(
        {
            "match": 2 / 3 - 3 / 4,
            "_positive": 3 / 4,
            "_negative": 2 / 3,
            "local": 0.25 * (1 / 2 - 9 / 10),
            "context": 0.25 * (4 / 5 - 1 / 2),
        }
    )


def test_self_similarity_by_hand() -> None:
    east, north = [1.0, 0.0], [0.0, 2.0]
    block = torch.tensor([[east, north], [east, east]])
    found = self_similarity(block, 1)
    assert found.shape == (2, 2, 9)
    assert found[0, 0].tolist() == [0, 0, 0, 0, 1, 0, 0, 1, 1]
    assert found[1, 1].tolist() == [1, 0, 0, 1, 1, 0, 0, 0, 0]


def test_fusion_begins_as_the_mean_and_is_symmetric() -> None:
    method = prepared("dccnet")
    assert isinstance(method, DCCNet)
    a, b = features(1), features(2)
    local, context = method.kinds(a, b)
    torch.testing.assert_close(method.scores(a, b), (local + context) / 2)
    fusion = Fusion()
    one = fusion([local, context], (6, 6), (6, 6))
    torch.testing.assert_close(fusion([local.T, context.T], (6, 6), (6, 6)).T, one)
    assert not torch.allclose(one, (local + context) / 2)


LINE = Grid(1, 4, stride=2.0, offset=1.0)  # centres at x = 1, 3, 5, 7, of an image that is 8 pixels wide


def line(*x: float) -> Tensor:
    """Where the four cells land."""
    return torch.tensor([[[place, 1.0] for place in x]])


def test_flow_terms_of_the_right_flow_are_zero() -> None:
    mask = torch.tensor([[0.0, 1.0, 1.0, 0.0]])
    terms = flow_terms(line(1, 3, 5, 7), line(1, 3, 5, 7), mask, mask, LINE, LINE)
    assert terms.tolist() == [0, 0, 0]


def test_flow_terms_by_hand() -> None:
    mask, other = torch.tensor([[0.0, 1.0, 1.0, 0.0]]), torch.tensor([[0.0, 0.0, 1.0, 1.0]])
    there, back = line(3, 5, 6, 7), line(1, 1, 3, 3)
    found = flow_terms(there, back, mask, other, LINE, LINE)
    # Carried masks: 0 at 3, 1 at 5, 1 at 6 (between 1 and 1), 1 at 7: the last cell is wrong.
    carried = 1 / 4
    # Cells 1 and 2 return to 3 (from 5) and to 3 (from 6): 0 and 2 pixels off, half an image is 4.
    returned = (0 + (2 / 4) ** 2) / 2
    # Displacements 2, 2, 1, 0: from cell 1 to 2 one pixel less, from 2 to 3 as well.
    smooth = (1 / 4 + 1 / 4) / 2
    assert found.tolist() == pytest.approx([carried, returned, smooth])


@pytest.mark.parametrize("name", SMALL)
def test_a_head_makes_the_round_trip(name: str, tmp_path: Path) -> None:
    """Over the bundled backbone: what training writes, ``--model`` reads."""
    settings = {
        "ncnet": {"layer": 13, "channels": 2},
        "dccnet": {"layer": 13, "channels": 2, "reach": 2, "reduced": 8},
        "sfnet": {"layers": [7, 10], "channels": 8},
    }
    recipe = make_config({"model": {"method": name, "init": "random"}, "head": settings[name]}, "here")
    method = find_method(name)(load_backbone("resnet50-msra"), recipe.head)
    images = [Image.fromarray(texture(96, 96, seed)) for seed in range(2)]
    before = Matcher(method, name, size=96)
    samples = [before.features(image).features for image in images]
    method.prepare(samples, torch.Generator().manual_seed(0), method.inits[-1])
    path = tmp_path / "head.safetensors"
    save_head(path, method, "resnet50-msra", method.head().state_dict())
    after = load(path, size=96)
    expected, found = (matcher.match(*images) for matcher in (before, after))
    np.testing.assert_allclose(found.flow, expected.flow, atol=1e-3)
    assert "layers" not in found.to_dict()
    assert read_head(path).config == recipe.head


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("ncnet", {"layer": 17}),
        ("ncnet", {"kernels": [2]}),
        ("ncnet", {"channels": 0}),
        ("dccnet", {"reach": 0}),
        ("sfnet", {"layers": []}),
        ("sfnet", {"temperature": 0.0}),
    ],
)
def test_bad_settings_are_named(name: str, config: dict[str, object]) -> None:
    with pytest.raises(InputError, match=f"{next(iter(config))} = .*wanted"):
        recipe = make_config({"model": {"method": name, "init": "random"}, "head": config}, "here")
        find_method(name)(find_backbone("resnet50-msra").build(), recipe.head)
