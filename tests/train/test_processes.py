"""Two processes of torchrun train as one does with the same batches."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from dhpf import InputError
from dhpf.train.loop import train

from .conftest import MakeConfig, environment
from .drawn import write_pairs
from .test_resume import write_recipe

CASES: dict[str, dict[str, dict[str, Any]]] = {
    "strong": {},
    "strong, batch norms as published": {"loss": {"bn_mode": "all"}},
    "weak": {
        "loss": {"objective": "weak"},
        "data": {"train": ["pf-pascal/trn"], "validate": ["pf-pascal/val"], "holdout": 0.0},
    },
}
OVER_A_VIT: dict[str, dict[str, Any]] = {
    "model": {"backbone": "dinov2-vits14", "size": [56, 56]},
    "head": {"gate_power": 1, "perceptron": 8, "readout": "soft-argmax", "lora_blocks": 2, "lora_rank": 2},
    "loss": {"noise": 0.3},
    "data": {"group_images": 3},
}
CASES["low-rank updates"] = OVER_A_VIT
TORCHRUN = ["torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
# Float64 rounds at 1e-16, sums of thousands of such terms at 1e-13. What a mistake in sharing the work
# changes is a good part of a gradient: 1e-3 or more of the weights, after four steps.
CLOSE = 1e-9


@pytest.fixture(scope="module")
def weak_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Training pairs without key points, and others with them."""
    folder = tmp_path_factory.mktemp("weak")
    write_pairs(folder / "PF-PASCAL", categories=2, groups=1, photos=3)
    lines = (folder / "PF-PASCAL" / "val_pairs.csv").read_text().splitlines()
    bare = [",".join(line.split(",")[:3]) for line in lines]
    (folder / "PF-PASCAL" / "trn_pairs.csv").write_text("\n".join(bare))
    return folder


def run(*words: object) -> str:
    """Run a module; what it said on stderr."""
    done = subprocess.run(
        [sys.executable, "-m", *map(str, words)],
        env=environment(),
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def difference(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> float:
    """The largest difference of values, in parts of the largest value of their kind."""
    assert one.keys() == two.keys()
    worst = 0.0
    for kind in {key.rpartition(".")[2] for key in one}:
        own = [key for key in one if key.endswith(f".{kind}")]
        scale = max(one[key].double().abs().max().item() for key in own)
        if scale > 0:
            worst = max(worst, *((two[k].double() - one[k].double()).abs().max().item() / scale for k in own))
    return worst


@pytest.mark.parametrize("name", CASES)
def test_two_processes_are_one(small: MakeConfig, features, weak_root, tmp_path, name):
    changes = {"run": {"epochs": 2, "batch": 4, "save_every": 9}, **CASES[name]}
    changes["data"] = {"per_epoch": 8, **changes.get("data", {})}
    # Not AdamW: it divides gradients by their size, and so makes steps of what are rounding errors.
    changes["optimiser"] = {"kind": "sgd", "rate": 0.01, "schedule": "constant", "ema": 0.5}
    if name == "weak":
        changes["data"] |= {"root": str(weak_root), "per_epoch": 4}
    config = small(**changes)
    recipe = write_recipe(config, tmp_path / "recipe.toml")
    run("tests.train.double", recipe, tmp_path / "one", features)
    said = run(*TORCHRUN, "-m", "tests.train.double", recipe, tmp_path / "two", features)
    assert said.count("epoch 1/2") == 1  # only the first process reports
    one, two = (load_file(tmp_path / folder / "state.safetensors") for folder in ("one", "two"))
    assert {value.dtype for value in one.values() if value.is_floating_point()} == {torch.float64}
    assert difference(one, two) < CLOSE
    histories = [json.loads((tmp_path / folder / "history.json").read_text()) for folder in ("one", "two")]
    for first, second in zip(*histories, strict=True):
        assert first.keys() == second.keys()
        assert second == pytest.approx(first, rel=CLOSE)


def test_the_command_under_torchrun(small: MakeConfig, features, tmp_path):
    """In float32, as people run it."""
    config = small(run={"epochs": 1}, data={"per_epoch": 4})
    recipe = write_recipe(config, tmp_path / "recipe.toml")
    said = run(*TORCHRUN, "-m", "dhpf", "train", recipe, "--out", tmp_path / "two", "--features", features)
    assert said.count("epoch 1/1") == 1
    assert "Warning" not in said
    assert (tmp_path / "two" / "best.safetensors").exists()


def test_processes_that_cannot_share_a_batch(small: MakeConfig, features, tmp_path, monkeypatch):
    from dhpf.train import loop

    monkeypatch.setattr(loop, "rank_and_world_size", lambda: (0, 4))
    monkeypatch.setattr(loop, "_join_processes", lambda device: None)
    with pytest.raises(InputError, match=r"4 processes cannot share batches of 2 equally.*a multiple of 4"):
        train(small(), tmp_path / "run", features=features)
    assert not (tmp_path / "run").exists()


def test_processes_that_nobody_started(small: MakeConfig, features, tmp_path, monkeypatch):
    for variable in ("MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match=r"2 processes cannot meet .*; start them with torchrun"):
        train(small(), tmp_path / "run", features=features)
    assert not (tmp_path / "run").exists()
