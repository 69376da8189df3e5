"""NC-Net, DCC-Net and SF-Net: from a recipe to a model that matches as it did in validation."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import dhpf
from dhpf.train.config import make_config
from dhpf.train.loop import train
from dhpf.train.sources import open_sources

HEADS = {
    "ncnet": {"layer": 7, "channels": 2},
    "dccnet": {"layer": 7, "channels": 2, "reach": 1, "reduced": 8},
    "sfnet": {"layers": [7, 10], "channels": 8, "sigma": 1.0},
}


@pytest.mark.parametrize("name", HEADS)
def test_a_run_ends_with_a_model(root: Path, features: Path, tmp_path: Path, name: str) -> None:
    recipe = {
        "model": {"method": name, "size": [64, 64]},
        "head": HEADS[name],
        "data": {"root": str(root), "per_epoch": 4, "validation_pairs": 3},
        "run": {"epochs": 1, "batch": 2},
    }
    config = make_config(recipe, "small")
    head = train(config, tmp_path / "run", features=features)
    (record,) = json.loads((tmp_path / "run" / "history.json").read_text())
    terms = {"ncnet": ["match"], "dccnet": ["match", "local", "context"]}
    terms["sfnet"] = ["mask", "consistency", "smoothness"]
    assert record["loss"] == pytest.approx(sum(record[term] for term in terms[name]), abs=1e-5)
    assert "val layers" not in record
    matcher = dhpf.load(head)
    assert matcher.size == (64, 64)
    (held_out,) = open_sources(config.data, config.run.seed, needs_points=False).validation
    right = []
    for pair in (held_out[n] for n in range(len(held_out))):
        moved = matcher.match(pair.source.path, pair.target.path).transfer(pair.source.points)
        right.append(
            np.mean(np.linalg.norm(moved - pair.target.points, axis=1) <= 0.1 * max(pair.target.size))
        )
    assert 100 * np.mean(right) == pytest.approx(record["val mean"], abs=100 / 27 + 1e-6)  # one point of 27
