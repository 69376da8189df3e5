"""Two processes of torchrun train as one does with the same batches."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from dhpf.train.loop import train

from .conftest import MakeConfig, environment
from .drawn import write_pairs
from .test_resume import write_recipe

CASES: dict[str, dict[str, dict[str, Any]]] = {
    "strong": {},
    "strong, all statistics": {"optimiser": {"statistics": "all"}},
    "weak": {
        "loss": {"objective": "weak"},
        "data": {"train": ["pf-pascal/trn"], "validate": ["pf-pascal/val"], "holdout": 0.0},
    },
}


@pytest.fixture(scope="module")
def weak_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Training pairs without key points, and others with them."""
    folder = tmp_path_factory.mktemp("weak")
    write_pairs(folder / "PF-PASCAL", categories=2, groups=1, photos=3)
    lines = (folder / "PF-PASCAL" / "val_pairs.csv").read_text().splitlines()
    bare = [",".join(line.split(",")[:3]) for line in lines]
    (folder / "PF-PASCAL" / "trn_pairs.csv").write_text("\n".join(bare))
    return folder


@pytest.mark.parametrize("name", CASES)
def test_two_processes_are_one(small: MakeConfig, features, weak_root, tmp_path, name):
    changes = {"run": {"epochs": 1, "batch": 4, "save_every": 9}, **CASES[name]}
    changes["data"] = {"per_epoch": 8, **changes.get("data", {})}
    # Not AdamW: it divides gradients by their size, and so makes steps of what are rounding errors.
    sgd = {"kind": "sgd", "rate": 0.01, "schedule": "constant", "average": 0.5}
    changes["optimiser"] = {**sgd, **changes.get("optimiser", {})}
    if name == "weak":
        changes["data"] |= {"root": str(weak_root), "per_epoch": 4}
    config = small(**changes)
    train(config, tmp_path / "one", features=features)
    recipe = write_recipe(config, tmp_path / "recipe.toml")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    command = ["-m", "dhpf", "train", recipe, "--out", tmp_path / "two", "--features", features]
    launched = subprocess.run(
        [*torchrun, *command],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert launched.returncode == 0, launched.stderr
    assert launched.stderr.count("epoch 1/1") == 1  # only the first process reports
    one, two = (load_file(tmp_path / folder / "state.safetensors") for folder in ("one", "two"))
    assert one.keys() == two.keys()
    for key in one:
        close = 1e-3 if key.startswith("optimiser") else 1e-5  # gradients; weights
        scale = one[key].double().abs().max().clamp_min(1e-12)
        assert ((two[key].double() - one[key].double()).abs().max() / scale).item() < close, key
    first, second = (
        json.loads((tmp_path / folder / "history.json").read_text())[-1] for folder in ("one", "two")
    )
    assert second["val mean"] == pytest.approx(first["val mean"], abs=4.0)
    assert second["val layers"] == pytest.approx(first["val layers"])


def test_processes_that_cannot_share_a_batch(small: MakeConfig, features, tmp_path, monkeypatch):
    from dhpf import InputError
    from dhpf.train import loop

    monkeypatch.setattr(loop, "_join_processes", lambda device: (0, 4))
    with pytest.raises(InputError, match=r"4 processes cannot share batches of 2 equally.*a multiple of 4"):
        train(small(), tmp_path, features=features)
