"""A backbone and a method of one's own, each a few lines, in every part of the package that takes one."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

from dhpf import Matcher
from dhpf.backbones.base import Backbone, Features
from dhpf.data import make_mini, open_dataset
from dhpf.evaluate.predict import predict
from dhpf.evaluate.score import score_predictions
from dhpf.grid import Grid, Size
from dhpf.methods.base import Batch, Matches, Method, NoSettings, TrainingPair
from dhpf.methods.dhpf import DHPF, DHPFConfig, DHPFObjective
from dhpf.methods.hpf import HPF, HPFConfig
from dhpf.methods.nearest import Nearest
from dhpf.model.readout import argmax_flow
from dhpf.train.step import Losses, training_step
from tests.conftest import texture


class TwoConvolutions(Backbone):
    """Cells of 8 x 8 pixels, three channels; then a look at the neighbours."""

    title = "two convolutions"
    channels = (3, 3)
    multiple = 8

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 3, 8, stride=8), nn.Conv2d(3, 3, 3, padding=1)
        generator = torch.Generator().manual_seed(0)
        for weight in self.parameters():
            nn.init.normal_(weight, generator=generator)
        self.requires_grad_(False)

    def grid(self, size: Size) -> Grid:
        return Grid(size[1] // 8, size[0] // 8, stride=8.0, offset=3.5)

    def forward(self, images: Tensor, layers: Sequence[int] | None = None) -> dict[int, Tensor]:
        first = self.first(images)
        return {0: first, 1: self.second(first)}


@dataclass(frozen=True)
class ProjectedConfig:
    temperature: float = 0.1


class Projected(Method):
    """Matches the projection of all layers by its cosine."""

    name = "projected"
    Config = ProjectedConfig

    def __init__(self, backbone: Backbone, config: ProjectedConfig | None = None) -> None:
        super().__init__(backbone, config)
        self.project = nn.Linear(sum(backbone.channels), 4)
        nn.init.normal_(self.project.weight, generator=torch.Generator().manual_seed(0))

    def scores(self, a: Features, b: Features) -> Tensor:
        together = (torch.cat([side.blocks[n] for n in self.layers], dim=2).flatten(0, 1) for side in (a, b))
        unit_a, unit_b = (F.normalize(self.project(cells), dim=1) for cells in together)
        return unit_a @ unit_b.T / self.config.temperature

    @torch.no_grad()
    def match(self, a: Features, b: Features, *, matrix_bytes: int | None = None) -> Matches:
        confidence, best = self.scores(a, b).softmax(1).max(1)
        return Matches(argmax_flow(best, confidence, a.grid, b.grid, reach=0.0))

    def losses(self, batch: Batch, objective: Any) -> dict[str, Tensor]:
        terms = []
        for source, target, points, truth in batch.pairs:
            rows = self.scores(source, target)[source.grid.nearest(points)]
            terms.append(F.cross_entropy(rows, target.grid.nearest(truth)))
        return {"match": torch.stack(terms).mean()}


def methods() -> dict[str, Method]:
    chosen = DHPF(TwoConvolutions(), DHPFConfig(transform=False))  # three channels are few enough
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(4, 3, 64, 64, generator=generator)
    chosen.prepare([chosen.features(image) for image in images], generator)
    return {
        "projected": Projected(TwoConvolutions()),
        "nearest": Nearest(TwoConvolutions()),
        "hpf": HPF(TwoConvolutions(), HPFConfig(layers=(0, 1))),
        "hpf, revoted": HPF(TwoConvolutions(), HPFConfig(layers=(0, 1), revote=True)),
        "dhpf": chosen,
    }


METHODS = methods()
SHIFT = 24  # pixels, three cells


def shifted() -> tuple[Image.Image, Image.Image]:
    """Two parts of one image: what is at x in the first is at x - SHIFT in the second."""
    whole = Image.fromarray(texture(96 + SHIFT, 96))
    return whole.crop((0, 0, 96, 96)), whole.crop((SHIFT, 0, 96 + SHIFT, 96))


def test_each_takes_a_few_lines() -> None:
    assert len(inspect.getsource(TwoConvolutions).splitlines()) < 40
    assert len(inspect.getsource(Projected).splitlines()) < 40


@pytest.mark.parametrize("name", METHODS)
def test_match(name: str) -> None:
    matcher = Matcher(METHODS[name], name, size=96)
    found = matcher.match(*shifted())
    inner = np.stack(np.meshgrid(np.arange(44, 76, 4), np.arange(20, 76, 4)), -1).reshape(-1, 2)
    error = np.linalg.norm(found.transfer(inner) - (inner - [SHIFT, 0]), axis=1)
    assert np.median(error) < 1e-6
    assert found.flow.shape == (96, 96, 2)
    assert 0 <= found.confidence.min() <= found.confidence.max() <= 1
    assert (found.layers is None) == (name in ("projected", "nearest"))


def batch_of(method: Method, count: int) -> Batch:
    matcher = Matcher(method, "any", size=96)
    a, b = (matcher.features(photo).features for photo in shifted())
    points = torch.tensor([[44.0, 20.0], [60.0, 44.0], [75.0, 70.0]])
    pairs = [TrainingPair(a, b, points, points - torch.tensor([SHIFT, 0.0]))] * count
    return Batch(pairs, range(count), count, torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("method", "objective"),
    [
        (Projected, NoSettings()),
        (DHPF, DHPFObjective()),
        (DHPF, DHPFObjective(objective="weak", bn_mode="all")),
    ],
)
def test_one_training_step(method: type[Method], objective: Any) -> None:
    torch.manual_seed(0)  # of gates and transformations that learn something in this step
    learner = method(TwoConvolutions())
    backbone = {key: value.clone() for key, value in learner.backbone.state_dict().items()}
    before = [weight.clone() for weight in learner.head().parameters()]
    optimiser = torch.optim.SGD(learner.head().parameters(), lr=0.01)
    losses = Losses(learner, objective)
    terms = training_step(losses, batch_of(learner, 4), optimiser)
    assert np.isfinite(terms["loss"])
    assert any(not torch.equal(*pair) for pair in zip(before, learner.head().parameters(), strict=True))
    assert all(torch.equal(backbone[key], value) for key, value in learner.backbone.state_dict().items())
    if method is Projected:
        assert losses(batch_of(learner, 4))[0] < terms["loss"]


@pytest.mark.parametrize("name", METHODS)
def test_predict_and_score(tmp_path: Path, name: str) -> None:
    make_mini("pf-pascal", tmp_path / "mini")
    dataset = open_dataset("pf-pascal", tmp_path / "mini", "test")
    matcher = Matcher(METHODS[name], "my own", size=64)
    found = predict(matcher, dataset, tmp_path / "found.npz", workers=1).predictions
    assert found is not None
    assert found.training_images is None  # it is not known what it has learned from
    right = []
    for number, pair in enumerate(dataset):
        moved = matcher.match(pair.source.image(), pair.target.image()).transfer(pair.source.points)
        np.testing.assert_allclose(found.pair(number).predicted_points, moved, atol=1e-6)
        away = np.hypot(*((moved - pair.target.points) * 240 / np.array(pair.target.size)).T)
        right.append(100 * np.mean(away <= 0.1 * 240))
    assert score_predictions(found, alphas=[0.1]).overall.values == pytest.approx([np.mean(right)])
