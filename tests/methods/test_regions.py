"""Proposal flow and SCNet: a shift is found, an embedding is learned."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from dhpf import InputError, Matcher
from dhpf.backbones.pixels import Pixels
from dhpf.backbones.weights import load_backbone
from dhpf.methods.base import Batch, Method, TrainingPair
from dhpf.methods.proposal_flow import ORIENTATIONS, ProposalFlow, orientations
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
    assert found.layers is None


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
