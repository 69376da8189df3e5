"""CNNGeo, A2Net, WeakAlign and RTNs: what they find, learn, save and begin with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.table1 import on_shared_backbones
from PIL import Image
from scipy.interpolate import RBFInterpolator
from scipy.ndimage import map_coordinates
from torch import Tensor, nn

import dhpf
from dhpf import InputError, Matcher
from dhpf.backbones.base import Backbone, Features
from dhpf.backbones.weights import BACKBONES
from dhpf.grid import Grid, Size
from dhpf.heads import load_head_for_training, read_head, save_head
from dhpf.methods import find_method
from dhpf.methods.base import Batch, TrainingPair
from dhpf.methods.geometric import GeometricMethod
from dhpf.model.geometric import initialise
from dhpf.points import Points
from dhpf.train.step import Losses, training_step
from dhpf.zoo import models

NAMES = ("cnngeo", "a2net", "weakalign", "rtns")


class Cells(Backbone):
    """Cells of 8 x 8 pixels, through random kernels."""

    title = "cells"
    channels = (32,)
    multiple = 8

    def __init__(self) -> None:
        super().__init__()
        self.kernels = nn.Conv2d(3, 32, 8, stride=8)
        nn.init.normal_(self.kernels.weight, generator=torch.Generator().manual_seed(0))
        self.requires_grad_(False)

    def grid(self, size: Size) -> Grid:
        return Grid(size[1] // 8, size[0] // 8, stride=8.0, offset=3.5)

    def forward(self, images: Tensor, layers: Sequence[int] | None = None) -> dict[int, Tensor]:
        return {0: self.kernels(images)}


def made(name: str, backbone: Backbone | None = None, /, **config: Any) -> GeometricMethod:
    """A method with random weights, which finds some transformation or other."""
    kind = find_method(name)
    method = kind(Cells() if backbone is None else backbone, kind.Config(**config))
    assert isinstance(method, GeometricMethod)
    initialise(method.head(), torch.Generator().manual_seed(0))
    for key, value in method.head().named_parameters():
        if "out.weight" in key:
            nn.init.normal_(value, std=0.002, generator=torch.Generator().manual_seed(0))
    return method


def noise(seed: int, size: int = 12) -> Features:
    block = torch.randn(size, size, 32, generator=torch.Generator().manual_seed(seed))
    return Features({0: block}, {0: block.mean((0, 1))}, Grid(size, size, 8.0, 3.5))


def shifted(features: Features, cells: int) -> Features:
    """What is in a column of the given image is so many columns further left."""
    return replace(features, blocks={0: features.blocks[0].roll(-cells, 1)})


def batch(count: int = 6, cells: int = 3) -> Batch:
    """Images and themselves shifted, with three true points."""
    points = torch.tensor([[43.5, 27.5], [67.5, 51.5], [83.5, 75.5]])
    pairs = [
        TrainingPair(noise(k), shifted(noise(k), cells), points, points - torch.tensor([8.0 * cells, 0.0]))
        for k in range(count)
    ]
    return Batch(pairs, range(count), count, torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", NAMES)
def test_a_method_begins_as_the_identity(name: str) -> None:
    method = made(name)
    method.prepare([], torch.Generator().manual_seed(0))
    found = method.match(noise(0), noise(0))
    assert np.abs(found.flow.displacement).max() < 1e-4
    np.testing.assert_allclose(found.flow.confidence, 1, atol=1e-5)  # each feature agrees with itself
    assert found.layers is None
    assert found.scores is None and not method.keeps_scores


@pytest.mark.parametrize("name", NAMES)
def test_a_method_learns_a_shift(name: str) -> None:
    """From pairs that all have the same transformation; no loss but the grid loss sees their points."""
    method = made(name, cells=12, channels=16, **({"iterations": 2} if name == "rtns" else {}))
    method.prepare([], torch.Generator().manual_seed(0))
    objective = method.Objective(**({"jitter": 0.0} if name in ("cnngeo", "a2net") else {}))
    learner = Losses(method, objective)
    optimiser = torch.optim.AdamW(method.head().parameters(), lr=3e-3)
    for _ in range(20):
        training_step(learner, batch(), optimiser)
    found = method.match(noise(9), shifted(noise(9), 3)).flow.displacement[3:9, 5:9]
    np.testing.assert_allclose(found.mean((0, 1)), [-24, 0], atol=8)  # one cell


def test_objectives_that_see_no_points() -> None:
    sees = {name: getattr(find_method(name).Objective(), "needs_points", True) for name in NAMES}
    assert sees == {"cnngeo": True, "a2net": True, "weakalign": False, "rtns": False}


@pytest.mark.parametrize("name", NAMES)
def test_a_head_comes_back_from_its_file(tmp_path: Path, name: str) -> None:
    with torch.device("meta"):
        backbone = BACKBONES["resnet50-msra"].build()
    method = made(name, backbone, layer=13, cells=12, channels=8)
    path = tmp_path / "head.safetensors"
    save_head(path, method, "resnet50-msra", method.head().state_dict())
    back = read_head(path)
    assert isinstance(back, GeometricMethod)
    assert back.config == method.config
    maps = torch.rand(2, 144, 12, 12, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.equal(back.landed(maps), method.landed(maps))
        assert not torch.equal(*method.landed(maps))  # it depends on what it sees


def test_weakalign_begins_as_a_head_of_cnngeo(tmp_path: Path) -> None:
    with torch.device("meta"):
        backbone = BACKBONES["resnet50-msra"].build()
    method = made("cnngeo", backbone, layer=13, cells=12, channels=8)
    path = tmp_path / "head.safetensors"
    save_head(path, method, "resnet50-msra", method.head().state_dict())
    begun = load_head_for_training(path, "weakalign", "resnet50-msra", method.config)
    assert begun.name == "weakalign"
    for key, value in method.head().state_dict().items():
        assert torch.equal(begun.head().state_dict()[key], value)
    with pytest.raises(InputError, match=r"a head of another kind \(cnngeo, resnet50-msra\); wanted rtns"):
        load_head_for_training(path, "rtns", "resnet50-msra", find_method("rtns").Config())


@pytest.mark.parametrize(
    ("name", "config", "message"),
    [
        ("cnngeo", {"layer": 1}, "layer = 1; wanted: from -1 to 0"),
        ("cnngeo", {"cells": 11}, "cells = 11; wanted from 12 to 64"),
        ("a2net", {"channels": 12}, "channels = 12; wanted a multiple of 8"),
        ("rtns", {"reach": 0}, "reach = 0; wanted from 1 to 10"),
    ],
)
def test_settings_that_make_no_sense(name: str, config: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        made(name, **config)


def test_input_of_any_size() -> None:
    """Features are resized to the lattice, and the flow covers the source."""
    matcher = Matcher(made("cnngeo"), "any", size=(160, 96))
    photo = Image.fromarray(np.random.default_rng(0).integers(0, 255, (60, 80, 3), np.uint8))
    found = matcher.match(photo, photo)
    assert found.flow.shape == (60, 80, 2)
    assert 0 <= found.confidence.min() <= found.confidence.max() <= 1


SHIPPED = {card.name: card.method for card in models().values() if card.method in NAMES}
CENTRE = 119.5  # of a photo of 240 x 240 pixels


def affine(turn: float, matrix: list[list[float]], shift: list[float]) -> Callable[[Points], Points]:
    """About the centre: what a matrix does, then a turn in degrees, then a shift."""
    sine, cosine = np.sin(np.deg2rad(turn)), np.cos(np.deg2rad(turn))
    whole = np.array([[cosine, -sine], [sine, cosine]]) @ matrix
    return lambda points: (points - CENTRE) @ whole.T + CENTRE + shift


def wave(points: Points) -> Points:
    """A thin-plate spline: the middle goes up by 20 pixels, the left and the right edge down."""
    control = np.stack(np.meshgrid([0, CENTRE, 2 * CENTRE], [0, CENTRE, 2 * CENTRE]), -1).reshape(-1, 2)
    down = np.where(control[:, :1] == CENTRE, [[0.0, -20.0]], [[0.0, 20.0]])
    return points + RBFInterpolator(control, down, kernel="thin_plate_spline")(points)


LESS_EXACT = ("rtns-resnet50", "cnngeo-dinov2-small")  # the latter's patches are 14 pixels wide
# From target to source pixels; how far apart these are; the mean error allowed to those and to the others.
KNOWN = {
    "turned": (affine(15, [[0.9, 0], [0, 0.9]], [20, -11]), 25.2, 7, 5),
    "shifted": (affine(0, [[1, 0], [0, 1]], [25, -18]), 30.8, 7, 5),
    "sheared": (affine(-10, [[0.8, 0.15], [0, 0.9]], [-8, 6]), 17.4, 7, 5),
    "bent": (wave, 13.6, 6, 6),
}


@pytest.fixture(scope="module")
def shipped() -> dict[str, Matcher]:
    """Those on one backbone share it: it sees each photo once."""
    return {name: one for group in on_shared_backbones(SHIPPED) for name, one in group.items()}


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("name", SHIPPED)
def test_a_known_transformation_of_a_photo_is_recovered(
    name: str, known: str, shipped: dict[str, Matcher]
) -> None:
    """A photo and itself transformed: where points of the middle land, in pixels of 240."""
    transformation, apart, of_less_exact, of_others = KNOWN[known]
    photo = np.asarray(Image.open(dhpf.sample("cheetah")).convert("RGB").resize((240, 240)))
    x, y = transformation(np.mgrid[:240, :240][::-1].reshape(2, -1).T.astype(float)).T
    channels = [map_coordinates(photo[..., k].astype(float), [y, x], order=1) for k in range(3)]
    target = np.stack(channels, -1).reshape(240, 240, 3).round().astype(np.uint8)
    truth = np.stack(np.meshgrid(np.arange(60, 181, 20.0), np.arange(60, 181, 20.0)), -1).reshape(-1, 2)
    points = transformation(truth)
    assert np.linalg.norm(points - truth, axis=1).mean() == pytest.approx(apart, abs=0.1)
    found = shipped[name].match(photo, target).transfer(points)
    allowed = of_less_exact if name in LESS_EXACT else of_others
    assert np.linalg.norm(found - truth, axis=1).mean() < allowed


class Planted(nn.Module):
    """In place of a regressor: always the same numbers."""

    def __init__(self, *numbers: float) -> None:
        super().__init__()
        self.numbers = torch.tensor(numbers)

    def forward(self, maps: Tensor) -> Tensor:
        return self.numbers.expand(len(maps), -1)


def test_the_loss_with_jitter_by_hand() -> None:
    """The target is warped once more by x -> (1 + a) x + b y + c: true points go back by its inverse."""
    method = made("cnngeo")
    method.affine = Planted(0, 0, 0.3, 0, 0, 0)  # to the right by 0.3
    method.thin_plate = Planted(*[0, -0.1] * 9)  # and up by 0.1
    given = batch(count=2)._replace(slots=(2, 0), total=4)
    found = method.losses(given, method.Objective(jitter=0.4))
    drawn = 2 * torch.rand(4, 2, 3, generator=torch.Generator().manual_seed(0)).double() - 1
    alone, both, right = [], [], []
    for slot, pair in zip((2, 0), given.pairs, strict=True):
        (a, b, c), (d, e, f) = (0.4 * drawn[slot]).tolist()
        for source, target in zip(pair.source_points.tolist(), pair.target_points.tolist(), strict=True):
            # Cells are 8 pixels, the first and the last of twelve at 3.5 and 91.5: -1 and 1.
            x, y, x_true, y_true = ((place - 47.5) / 44 for place in (*source, *target))
            p, q = x_true - c, y_true - f
            determinant = (1 + a) * (1 + e) - b * d
            x_back = ((1 + e) * p - b * q) / determinant
            y_back = ((1 + a) * q - d * p) / determinant
            alone.append((x + 0.3 - x_back) ** 2 + (y - y_back) ** 2)
            both.append((x + 0.3 - x_back) ** 2 + (y - 0.1 - y_back) ** 2)
            right.append(both[-1] <= 0.2**2)
    # Two pairs of three points of a batch of four pairs, in one process: half of the mean.
    assert float(found["affine"]) == pytest.approx(np.mean(alone) / 2, rel=1e-4)
    assert float(found["match"]) == pytest.approx(np.mean(both) / 2, rel=1e-4)
    assert float(found["_pck"]) == pytest.approx(100 * np.mean(right))
