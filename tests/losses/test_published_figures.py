"""Losses agree with the published implementation: figures that ``tests/model/make_parity_data.py`` kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import tests.model
from dhpf.losses.layer_rate import layer_rate_loss
from dhpf.model.hough import hough_space
from dhpf.train.gated_pair import Blocks, GatedPair

GRID = (60, 60)
ENTROPY = 6.008098602294922  # of the first pair, in bits
LAYER_RATE = 3.1388888359069824  # of three pairs, mu = 0.5


@pytest.fixture(scope="module")
def figures() -> dict[str, np.ndarray]:
    with np.load(Path(tests.model.__file__).parent / "parity.npz") as file:
        return {name: file[name] for name in file.files}


def test_entropy_of_a_pair(figures: dict[str, np.ndarray]) -> None:
    on = torch.from_numpy(figures["layers_0"]).float()
    source, target = (
        {
            layer: torch.from_numpy(figures[f"{side}_{layer}"]).permute(1, 2, 0).contiguous()
            for layer in on.nonzero().flatten().tolist()
        }
        for side in ("source", "target")
    )
    space = hough_space((240, 240), (240, 240), torch.float32, torch.device("cpu"))
    entropy = GatedPair(Blocks(source, target), on, GRID, GRID).entropy(space)
    assert entropy.item() == pytest.approx(ENTROPY, rel=1e-4)


def test_layer_rate_of_three_pairs(figures: dict[str, np.ndarray]) -> None:
    on = torch.from_numpy(np.stack([figures[f"layers_{index}"] for index in range(3)])).float()
    assert layer_rate_loss(on, 0.5).item() == pytest.approx(LAYER_RATE, rel=1e-5)
