"""Agreement with the published implementation; ``make_parity_data.py`` says what is kept of its figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from dhpf.backbones.resnet import ResNet
from dhpf.losses.layer_rate import layer_rate_loss
from dhpf.losses.weak import pair_entropy
from dhpf.model.correlation import Correlation, correlate
from dhpf.model.gating import LayerGates
from dhpf.model.hough import hough_space, offset_windows
from dhpf.model.matching import Voting, match_cells, strongest_matches
from dhpf.model.mutual import mutual_filter
from dhpf.model.readout import argmax_flow
from tests import literal

with torch.device("meta"):
    BACKBONE = ResNet(50)
GRID = BACKBONE.grid((240, 240))
PUBLISHED = Voting(hough="published")
ENTROPY = 6.008098602294922  # of the first pair, in bits
LAYER_RATE = 3.1388888359069824  # of three pairs, mu = 0.5

Figures = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def figures() -> Figures:
    with np.load(Path(__file__).parent / "parity.npz") as file:
        return {name: file[name] for name in file.files}


@pytest.fixture(scope="module")
def blocks(figures: Figures) -> list[list[torch.Tensor]]:
    layers = np.flatnonzero(figures["layers_0"])
    return [
        [torch.from_numpy(figures[f"{s}_{n}"]).permute(1, 2, 0) for n in layers] for s in ("source", "target")
    ]


@pytest.fixture(scope="module")
def correlation(blocks: list[list[torch.Tensor]]) -> Correlation:
    return correlate(*blocks, GRID, GRID)


def test_layer_decisions(figures: Figures) -> None:
    gates = LayerGates(BACKBONE.channels).eval()
    state = {key.split("/")[1]: torch.from_numpy(value) for key, value in figures.items() if "/" in key}
    missing, unexpected = gates.load_state_dict(state, strict=False)
    assert not unexpected and all(key.endswith("num_batches_tracked") for key in missing)
    for index in range(3):
        pooled = torch.from_numpy(figures[f"pooled_{index}"])[None].split(list(BACKBONE.channels), dim=1)
        assert gates(pooled).on[0].tolist() == figures[f"layers_{index}"].tolist()


def test_every_stage(figures: Figures, correlation: Correlation) -> None:
    windows, every = offset_windows(GRID, GRID, torch.device("cpu")), torch.arange(3600)
    appearance, table = correlation.dense(), torch.zeros(119, 119)
    windows.add(table, every, appearance)
    space = hough_space(GRID, GRID, torch.float32, torch.device("cpu"), "published")
    votes = windows.read(space.votes(table), every)
    confidence = appearance * votes
    filtered = mutual_filter(confidence, confidence.amax(1), confidence.amax(0))
    found = {"appearance": appearance, "votes": votes, "confidence": confidence, "filtered": filtered}
    for name, values in found.items():
        expected = figures[name]
        error = np.abs(values[figures["rows"]].numpy() - expected).max(1) / expected.max(1)
        assert error.max() < 1e-4, name


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("matrix_bytes", [0, 2**30])
def test_best_targets_and_points(
    figures: Figures, correlation: Correlation, compiled: bool, matrix_bytes: int
) -> None:
    found = match_cells(correlation, PUBLISHED, matrix_bytes, compiled)
    assert np.array_equal(found.best.numpy(), figures["best_target"])
    points = figures["source_points"].astype(np.float64)
    moved = argmax_flow(found.best, found.confidence, GRID, GRID).transfer(points)
    assert np.abs(moved - figures["predicted_points"]).max() < 1e-4


def test_the_literal_reference_agrees_too(figures: Figures, blocks: list[list[torch.Tensor]]) -> None:
    match = literal.match(*blocks, GRID, GRID, "published")
    assert np.array_equal(match.best.numpy(), figures["best_target"])
    moved = literal.transfer(torch.from_numpy(figures["source_points"]), match.best, GRID, GRID)
    assert np.abs(moved.numpy() - figures["predicted_points"]).max() < 1e-4


def test_entropy_of_a_pair(correlation: Correlation) -> None:
    entropy = pair_entropy(correlation, strongest_matches(correlation, PUBLISHED))
    assert entropy.item() == pytest.approx(ENTROPY, rel=1e-4)


def test_layer_rate_of_three_pairs(figures: Figures) -> None:
    on = torch.from_numpy(np.stack([figures[f"layers_{index}"] for index in range(3)])).float()
    assert layer_rate_loss(on, 0.5).item() == pytest.approx(LAYER_RATE, rel=1e-5)
