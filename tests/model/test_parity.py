"""Agreement with the published implementation; ``make_parity_data.py`` says what is kept of its figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from dhpf.model.backbone import ResNet
from dhpf.model.correlation import FactoredCorrelation, correlate
from dhpf.model.gating import LayerGates
from dhpf.model.hough import hough_space, spread_votes
from dhpf.model.matching import match_cells
from dhpf.model.mutual import mutual_filter
from dhpf.model.passes import Block, TorchPasses
from dhpf.model.transfer import Neighbourhoods, cell_offsets
from tests import literal

GRID = (60, 60)


@pytest.fixture(scope="module")
def figures() -> dict[str, np.ndarray]:
    with np.load(Path(__file__).parent / "parity.npz") as file:
        return {name: file[name] for name in file.files}


@pytest.fixture(scope="module")
def correlation(figures: dict[str, np.ndarray]) -> FactoredCorrelation:
    layers = np.flatnonzero(figures["layers_0"])
    source, target = ([torch.from_numpy(figures[f"{s}_{n}"]) for n in layers] for s in ("source", "target"))
    return correlate(source, target, GRID, GRID)


def test_layer_decisions(figures: dict[str, np.ndarray]) -> None:
    with torch.device("meta"):
        channels = ResNet(50).channels
    gates = LayerGates(channels).eval()
    state = {key.split("/")[1]: torch.from_numpy(value) for key, value in figures.items() if "/" in key}
    missing, unexpected = gates.load_state_dict(state, strict=False)
    assert not unexpected and all(key.endswith("num_batches_tracked") for key in missing)
    for index in range(3):
        pooled = torch.from_numpy(figures[f"pooled_{index}"])[None].split(list(channels), dim=1)
        decisions = gates(pooled, [torch.zeros_like(p) for p in pooled])
        assert decisions.on[0].tolist() == figures[f"layers_{index}"].tolist()


def test_every_stage(figures: dict[str, np.ndarray], correlation: FactoredCorrelation) -> None:
    appearance = torch.empty(3600, 3600)
    sums = TorchPasses(correlation).appearance(Block(0, 60, 60), appearance)
    table = hough_space((240, 240), (240, 240), torch.float32, torch.device("cpu")).votes(sums)
    votes = spread_votes(table, 0, 60, GRID, GRID)
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
    figures: dict[str, np.ndarray], correlation: FactoredCorrelation, compiled: bool, matrix_bytes: int
) -> None:
    space = hough_space((240, 240), (240, 240), torch.float32, torch.device("cpu"))
    best = match_cells(correlation, space, matrix_bytes, compiled).best.numpy()
    assert np.array_equal(best, figures["best_target"])
    points = figures["source_points"].astype(np.float64)
    moved = points + Neighbourhoods(cell_offsets(best, GRID, 60)).mean(points[:, 0], points[:, 1])
    assert np.abs(moved - figures["predicted_points"]).max() < 1e-4


def test_the_literal_reference_agrees_too(figures: dict[str, np.ndarray]) -> None:
    layers = np.flatnonzero(figures["layers_0"])
    source, target = ([torch.from_numpy(figures[f"{s}_{n}"]) for n in layers] for s in ("source", "target"))
    match = literal.match(source, target, GRID, GRID, (240, 240), (240, 240))
    assert np.array_equal(match.best.numpy(), figures["best_target"])
    moved = literal.transfer(torch.from_numpy(figures["source_points"]), match.best, GRID, GRID)
    assert np.abs(moved.numpy() - figures["predicted_points"]).max() < 1e-4
