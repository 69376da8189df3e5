"""Proposal flow and SCNet: a shift is found, an embedding is learned."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from dhpf import InputError, Matcher
from dhpf.backbones.base import Features, Regions
from dhpf.backbones.pixels import Pixels
from dhpf.backbones.weights import load_backbone
from dhpf.grid import Grid
from dhpf.methods.base import Batch, Method, TrainingPair
from dhpf.methods.proposal_flow import ORIENTATIONS, ProposalFlow, hog, orientations
from dhpf.methods.scnet import SCNet, SCNetConfig, around
from dhpf.model.proposals import grid_boxes
from dhpf.train.step import Losses, training_step
from tests.test_own_backbone_and_method import SHIFT, TwoConvolutions, shifted


def scnet() -> SCNet:
    """Not trained."""
    method = SCNet(TwoConvolutions(), SCNetConfig(layer=0, channels=3))
    seen = [Matcher(method, "scnet", size=96).features(image).features for image in shifted()]
    method.prepare(seen, torch.Generator())
    return method


@pytest.mark.parametrize("method", [ProposalFlow(Pixels()), scnet()], ids=["pf", "scnet"])
def test_a_shift_is_found(method: Method) -> None:
    found = Matcher(method, method.name, size=96).match(*shifted())
    inner = np.stack(np.meshgrid(np.arange(44, 76, 4), np.arange(20, 76, 4)), -1).reshape(-1, 2)
    error = np.linalg.norm(found.transfer(inner) - (inner - [SHIFT, 0]), axis=1)
    assert np.median(error) < 6
    assert 0 <= found.confidence.min() <= found.confidence.max() <= 1
    assert found.layers is None and found.match_scores is None and not method.keeps_scores


def test_edges_by_their_orientation() -> None:
    image = torch.zeros(8, 8, 3)
    image[:, 4:, 1] = 0.5  # an upright edge, in one channel
    found = orientations(image)
    assert found.shape == (8, 8, ORIENTATIONS)
    assert found[2, :, 0].tolist() == [0, 0, 0, 0.5, 0.5, 0, 0, 0]
    turned = orientations(image.transpose(0, 1))[:, 2]  # by half of the nine orientations: between two
    assert turned[3, 4].item() == pytest.approx(0.25, abs=1e-6)
    assert turned[3, 5].item() == pytest.approx(0.25, abs=1e-6)
    assert turned.sum().item() == pytest.approx(1.0, abs=1e-6)


def test_histograms_are_those_of_a_literal_loop() -> None:
    """Of boxes of 8 x 8 pixels, so that a bin is a pixel."""
    image = torch.rand(9, 12, 3, generator=torch.Generator().manual_seed(0)).double()
    image[:, :3] *= 0.01  # weak edges beside strong ones
    corners = [(0, 0), (4, 0), (3, 1)]
    edges = np.zeros((9, 12, 9))
    for row, column in np.ndindex(9, 12):
        left, right, above, below = max(column - 1, 0), min(column + 1, 11), max(row - 1, 0), min(row + 1, 8)
        gradients = [
            (
                float(image[row, right, k] - image[row, left, k]),
                float(image[below, column, k] - image[above, column, k]),
            )
            for k in range(3)
        ]
        x, y = max(gradients, key=lambda xy: math.hypot(*xy))
        place = math.degrees(math.atan2(y, x)) % 180 / 20
        first = math.floor(place)
        edges[row, column, first % 9] += math.hypot(x, y) * (first + 1 - place)
        edges[row, column, (first + 1) % 9] += math.hypot(x, y) * (place - first)
    histograms = np.zeros((3, 8, 8, 9))
    for number, (x, y) in enumerate(corners):
        inside = edges[y : y + 8, x : x + 8]
        for row, column in np.ndindex(8, 8):
            around = inside[max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2]
            energy = np.mean([(pixel**2).sum() for pixel in around.reshape(-1, 9)])
            histograms[number, row, column] = np.minimum(inside[row, column] / (energy**0.5 + 1e-3), 0.2)
    assert 0.1 < (histograms == 0.2).sum() / (histograms > 0).sum() < 0.9  # some are clipped
    centred = (histograms - histograms.mean(0)).reshape(3, -1)
    expected = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    boxes = torch.tensor([[x - 0.5, y - 0.5, x + 7.5, y + 7.5] for x, y in corners])
    np.testing.assert_allclose(hog(image, boxes), expected, atol=1e-6)


def by_hand() -> tuple[Features, Features]:
    """Two boxes each, that move by 30 pixels, two bins of 15. The first looks more like the wrong one.

    With a temperature of 0.1 and cosines of 0.6, 0.8, 0 and 1:
        appearance    e^-4  e^-2     votes    1 + e^-4     e^-2       as a fraction  1     0.133
                      e^-10    1             e^-10     1 + e^-4    of the highest   1e-4      1
    (the last would be 4.5e-5, below the least)
    """
    nothing, grid = torch.zeros(24, 24, 3), Grid(24, 24, stride=10.0, offset=4.5)
    boxes = torch.tensor([[0.0, 0, 30, 30], [60, 60, 90, 90]])
    one = Regions(boxes, torch.tensor([[0.6, 0.8], [0, 1]]))
    other = Regions(boxes + torch.tensor([30, 0, 30, 0]), torch.eye(2))
    return Features({0: nothing}, {}, grid, regions=one), Features({0: nothing}, {}, grid, regions=other)


SCORES = np.exp([[-4, -2], [-10, 0]]) * [[1, math.exp(-2) / (1 + math.exp(-4))], [1e-4, 1]]


def test_scores_of_scnet_by_hand() -> None:
    method, (a, b) = SCNet(TwoConvolutions(), SCNetConfig(layer=0, channels=3)), by_hand()
    assert a.regions is not None and b.regions is not None
    appearance = method.similar(a.regions.descriptors, b.regions.descriptors)
    scores = appearance + method.prior(a.regions, b.regions, (240, 240))
    np.testing.assert_allclose(scores.exp().detach(), SCORES, rtol=1e-4)
    assert SCORES[0, 0] > SCORES[0, 1]  # geometry settles what appearance cannot
    flow = method.match(a, b).flow
    for cell, confidence in ((1, SCORES[0, 0]), (7, 1.0)):  # in the middle of each box
        np.testing.assert_allclose(flow.displacement[cell, cell], [30, 0], atol=1e-3)
        assert flow.confidence[cell, cell] == pytest.approx(confidence, rel=1e-4)


def test_the_loss_of_scnet_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    method, (a, b) = SCNet(TwoConvolutions(), SCNetConfig(layer=0, channels=3)), by_hand()
    monkeypatch.setattr(method, "regions", lambda features: features.regions)
    points = torch.tensor([[14.0, 16.0], [75.0, 73.0], [20.0, 9.0]])  # in the first, second, first box
    pair = TrainingPair(a, b, points, points + torch.tensor([30, 0]))
    chances = [SCORES[k, k] / SCORES[k].sum() for k in (0, 1, 0)]
    found = method.losses(Batch([pair], range(1), 1, torch.Generator()), method.Objective())
    assert found.keys() == {"match"}
    assert found["match"].item() == pytest.approx(-np.log(chances).mean(), rel=1e-4)


def test_shares_of_two_processes_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """One pair for the first process and two for the second, whose losses are averaged."""
    method, (a, b) = SCNet(TwoConvolutions(), SCNetConfig(layer=0, channels=3)), by_hand()
    monkeypatch.setattr(method, "regions", lambda features: features.regions)
    first, second = torch.tensor([[[14.0, 16.0]], [[75.0, 73.0]]])  # in the first box, in the second
    pairs = [TrainingPair(a, b, points, points + torch.tensor([30, 0])) for points in (first, second, second)]

    def loss(slots: range, world_size: int) -> float:
        batch = Batch([pairs[n] for n in slots], slots, 3, torch.Generator(), world_size)
        return method.losses(batch, method.Objective())["match"].item()

    each = [-np.log(SCORES[k, k] / SCORES[k].sum()) for k in (0, 1, 1)]
    assert loss(range(3), 1) == pytest.approx(np.mean(each), rel=1e-4)
    assert (loss(range(1), 2) + loss(range(1, 3), 2)) / 2 == pytest.approx(np.mean(each), rel=1e-4)


def test_boxes_around_a_keypoint() -> None:
    boxes = grid_boxes((100, 100), (0.5, 0.25), 1.0)  # 2 x 2 of 50 pixels and 4 x 4 of 25
    found = around(torch.tensor([[12.0, 12.0], [60.0, 88.0]]), boxes)
    assert found.tolist() == [[4 + 0, 0], [4 + 14, 3]]  # the smaller first


def test_scnet_learns_from_keypoints() -> None:
    method = scnet().requires_grad_(True)
    with torch.no_grad():
        method.embedding.weight.copy_(torch.tensor([[0.01, 1, 0], [0.01, 1, 0], [0, 1, 0.01]]))
    a, b = (Matcher(method, "scnet", size=96).features(image).features for image in shifted())
    points = torch.tensor([[44.0, 20.0], [60.0, 44.0], [75.0, 70.0]])
    pair = TrainingPair(a, b, points, points - torch.tensor([SHIFT, 0.0]))
    batch = Batch([pair], range(1), 1, torch.Generator())
    optimiser = torch.optim.AdamW(method.head().parameters(), lr=0.03)
    losses = [training_step(Losses(method, None), batch, optimiser)["loss"] for _ in range(4)]
    assert losses[-1] < 0.95 * losses[0]
    assert method.is_finite()
    with torch.no_grad():
        method.temperature.log.fill_(-1000)
    assert not method.is_finite()


def test_the_image_itself_has_no_weights(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the backbone pixels has no weights; leave --backbone"):
        load_backbone("pixels", tmp_path / "resnet.pth")
