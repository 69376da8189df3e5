"""A run resumes exactly where it was, or says why it cannot."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from dhpf import InputError
from dhpf.train.checkpoint import read_state
from dhpf.train.config import Config
from dhpf.train.loop import train

from .conftest import Finished, MakeConfig, environment


def write_recipe(config: Config, path: Path) -> Path:
    """The configuration as TOML; JSON's lists, numbers and texts are TOML's too."""
    lines = [f"{key} = {json.dumps(value)}" for key, value in asdict(config).items() if type(value) is str]
    for section, values in asdict(config).items():
        if type(values) is dict:
            lines += [f"[{section}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
    path.write_text("\n".join(lines))
    return path


def assert_same(one: Path, other: Path) -> None:
    """Bit for bit: what a run holds, and the heads that it made."""
    for name in ("state.safetensors", "best.safetensors", "last.safetensors"):
        mine, theirs = load_file(one / name), load_file(other / name)
        assert mine.keys() == theirs.keys()
        for key, value in mine.items():
            assert torch.equal(value, theirs[key]), f"{name}: {key}"


def test_killed_at_any_moment(finished: Finished, features, tmp_path):
    out = tmp_path / "run"
    recipe = write_recipe(finished.config, tmp_path / "recipe.toml")
    done = subprocess.run(
        [sys.executable, "-m", "tests.train.killed", recipe, out, features],
        env=environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    attempts = done.stdout.splitlines()
    assert attempts[-1] == "to the end: finished", done.stderr
    assert not any("failed" in line for line in attempts), done.stderr
    assert sum(line.endswith("killed") for line in attempts) >= 6, attempts
    assert_same(out, finished.out)
    assert not list(out.glob(".*partial*"))
    assert history(out) == history(finished.out)  # the means of an epoch's steps too


def history(out: Path) -> list[dict[str, float]]:
    found: list[dict[str, float]] = json.loads((out / "history.json").read_text())
    return found


def test_a_finished_run_stays_as_it_is(finished: Finished, features, tmp_path):
    out = shutil.copytree(finished.out, tmp_path / "run")
    train(finished.config, out, resume=True, features=features)
    assert_same(out, finished.out)


def test_another_recipe_names_what_changed(finished: Finished, features):
    other = replace(
        finished.config,
        loss=replace(finished.config.loss, mu=0.3),
        run=replace(finished.config.run, seed=5, save_every=7, cache_gb=1.0),
    )
    with pytest.raises(InputError, match=r"other settings \(loss\.mu, run\.seed\)"):
        train(other, finished.out, resume=True, features=features)


def test_more_epochs(small: MakeConfig, finished: Finished, features, tmp_path):
    """At a constant rate a run that ended goes on, and ends as if it had been asked for that many at once."""
    config = small(optimiser={"schedule": "constant"})
    short = replace(config, run=replace(config.run, epochs=1))
    assert config.run.epochs > 1
    train(config, tmp_path / "at once", features=features)
    train(short, tmp_path / "in turns", features=features)
    train(config, tmp_path / "in turns", resume=True, features=features)
    assert_same(tmp_path / "in turns", tmp_path / "at once")
    other = replace(finished.config, run=replace(finished.config.run, epochs=7))
    with pytest.raises(InputError, match=r"other settings \(run\.epochs\)"):
        train(other, finished.out, resume=True, features=features)


def test_a_run_is_not_overwritten(finished: Finished, features):
    before = (finished.out / "state.safetensors").stat().st_mtime_ns
    with pytest.raises(InputError, match="holds a run already; resume it with --resume"):
        train(finished.config, finished.out, features=features)
    assert (finished.out / "state.safetensors").stat().st_mtime_ns == before


@pytest.mark.parametrize("kept", [0, 100, 5000, -1000])
def test_a_damaged_state_is_refused(finished: Finished, features, tmp_path, kept):
    content = (finished.out / "state.safetensors").read_bytes()
    (tmp_path / "state.safetensors").write_bytes(content[:kept])
    with pytest.raises(InputError, match="is no training state of this program, or it is damaged"):
        train(finished.config, tmp_path, resume=True, features=features)


def test_another_file_in_its_place_is_refused(finished: Finished, tmp_path):
    shutil.copy(finished.out / "best.safetensors", tmp_path / "state.safetensors")
    with pytest.raises(InputError, match="is no training state of this program"):
        read_state(tmp_path)


def test_a_folder_that_cannot_be_made(finished: Finished, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot make the folder"):
        train(finished.config, tmp_path / "file" / "run")


def test_a_full_disk_leaves_the_last_good_checkpoint(finished: Finished, features, tmp_path):
    """A file may not grow beyond what the heads need: the state cannot be written again."""
    out = tmp_path / "run"
    recipe = write_recipe(finished.config, tmp_path / "recipe.toml")
    heads = (finished.out / "best.safetensors").stat().st_size
    limited = (
        "import resource, sys; from dhpf.cli import main; from pathlib import Path\n"
        "import dhpf.train.loop as loop\n"
        "saving = loop.save_state\n"
        "def save(*arguments):\n"  # the first time there is room
        f"    if (Path({str(out)!r}) / 'state.safetensors').exists():\n"
        f"        resource.setrlimit(resource.RLIMIT_FSIZE, ({2 * heads}, {2 * heads}))\n"
        "    saving(*arguments)\n"
        "loop.save_state = save\n"
        "main()\n"
    )
    stopped = subprocess.run(
        [sys.executable, "-c", limited, "train", recipe, "--out", out, "--features", features],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert stopped.returncode == 2
    last = stopped.stderr.strip().splitlines()[-1]
    assert last == f"dhpf: error: cannot write {out / 'state.safetensors'}: File too large"
    assert "Traceback" not in stopped.stderr
    assert read_state(out)[0]["progress"]["step"] == 1
    assert [path.name for path in out.iterdir() if path.suffix == ".safetensors"] == ["state.safetensors"]
    train(finished.config, out, resume=True, features=features)
    assert_same(out, finished.out)


def test_infinite_weights_stop_the_run_before_they_are_saved(small, features, tmp_path, monkeypatch):
    def diverge(optimiser: torch.optim.SGD) -> None:
        optimiser.param_groups[0]["params"][0].data.fill_(float("inf"))

    monkeypatch.setattr(torch.optim.SGD, "step", diverge)
    config = small(optimiser={"kind": "sgd", "schedule": "constant"})
    with pytest.raises(
        InputError, match=r"epoch 1, step 1: a weight is inf and the loss .*lower optimiser\.rate"
    ):
        train(config, tmp_path, features=features)
    assert not list(tmp_path.glob("*.safetensors"))
