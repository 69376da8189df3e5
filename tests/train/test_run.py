"""What a run leaves behind: heads that match as they did in validation, and say how they were made."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.testing import assert_close

import dhpf
from dhpf.errors import InputError
from dhpf.evaluate.provenance import code_version
from dhpf.heads import load_head, load_head_for_training, read_metadata, save_head
from dhpf.train.config import Config, make_config
from dhpf.train.features import FeatureStore
from dhpf.train.loop import train
from dhpf.train.sources import open_sources
from dhpf.train.validate import validate
from dhpf.zoo import training_images

from .conftest import Finished, MakeConfig
from .test_processes import OVER_A_VIT


def test_heads_say_how_they_were_made(finished: Finished):
    history = json.loads((finished.out / "history.json").read_text())
    best = max(range(2), key=lambda epoch: history[epoch]["val mean"])
    for name, epoch in (("best", best), ("last", 1)):
        about = read_metadata(finished.out / f"{name}.safetensors")
        assert make_config(json.loads(about["recipe"]), "head") == finished.config
        assert json.loads(about["config"]) == json.loads(json.dumps(asdict(finished.config.head)))
        assert about["commit"] == code_version()
        assert json.loads(about["metrics"]) == history[epoch]
        assert float(about["hours"]) >= 0
        sources = open_sources(finished.config.data, 0, True)
        assert about["training_images"].splitlines() == sources.training_images()


def test_the_history_has_what_there_is_to_know(finished: Finished):
    history = json.loads((finished.out / "history.json").read_text())
    assert [record["epoch"] for record in history] == [0, 1]
    for record in history:
        assert {"match", "select", "layers", "pck", "loss", "rate", "val mean", "val layers"} <= record.keys()
        assert record["val mean"] == record["val pf-pascal/val"]
        assert record["loss"] == pytest.approx(record["match"] + record["select"], rel=1e-5)
        assert 0 <= record["pck"] <= 100
    assert list((finished.out / "tensorboard").iterdir())


def matched(config: Config, head: Path) -> tuple[float, float]:
    """PCK of the held-out pairs at a tenth of the longer side, as everyone matches; and layers on average."""
    matcher = dhpf.load(head, size=config.model.size)
    (held_out,) = open_sources(config.data, config.run.seed, True).validation
    right, layers = [], []
    for n in range(len(held_out)):
        source, target = held_out[n].source, held_out[n].target
        match = matcher.match(source.path, target.path)
        error = np.linalg.norm(match.transfer(source.points) - target.points, axis=1)
        right.append(np.mean(error <= 0.1 * max(target.size)))  # the images are square
        layers.append(len(match.layers))
    return 100 * float(np.mean(right)), float(np.mean(layers))


def test_validation_is_what_matching_says(finished: Finished):
    pck, layers = matched(finished.config, finished.out / "last.safetensors")
    record = json.loads((finished.out / "history.json").read_text())[-1]
    assert pck == pytest.approx(record["val mean"], abs=100 / 27 + 1e-6)  # a point of 27, for float16
    assert layers == pytest.approx(record["val layers"], abs=0.34)


VARIANTS = {
    "squared": {"head": {"gate_power": 2}},
    "sigmoid": {"head": {"gating": "sigmoid"}, "loss": {"select": 0.0}},
    "sigmoid squared": {"head": {"gating": "sigmoid", "gate_power": 2}, "loss": {"select": 1.0}},
    "sigmoid l1": {"head": {"gating": "sigmoid"}, "loss": {"select": 0.0, "l1": 1.0}},
    "all layers": {"head": {"gating": "none"}},
    "without transform": {"head": {"transform": False}},
    "without hough": {"head": {"hough": "none"}},
    "revote": {"head": {"revote": True}},
    "without omega and select": {
        "loss": {"omega": False, "select": 0.0, "target_sigma": 1.0, "dropout": 0.2}
    },
    "batch norms as published": {"loss": {"bn_mode": "all"}},
    "fixed batch norms": {"loss": {"bn_mode": "none"}},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_learns_and_matches_as_in_validation(
    small: MakeConfig, features, tmp_path, backbone, name
):
    short = {"run": {"epochs": 1, "save_every": 100}, "data": {"per_epoch": 4}, "optimiser": {"rate": 0.01}}
    changes = {
        key: {**short.get(key, {}), **VARIANTS[name].get(key, {})} for key in {*short, *VARIANTS[name]}
    }
    config = small(**changes)
    train(config, tmp_path, features=features)
    (record,) = json.loads((tmp_path / "history.json").read_text())
    head = tmp_path / "last.safetensors"
    method = load_head(head)
    assert method.config == config.head
    # The same path from the head's file, on the same stored features: the same figures.
    store = FeatureStore(backbone, config.model.backbone, config.model.size, features, 10**9)
    again = validate(method, open_sources(config.data, 0, True).validation, store, 0, 1)
    assert again["mean"] == pytest.approx(record["val mean"], abs=1e-6)
    assert again["layers"] == record["val layers"]
    assert store.computed == 0
    # And by the way that everyone goes, whose features are not rounded to float16.
    pck, layers = matched(config, head)
    assert pck == pytest.approx(record["val mean"], abs=200 / 27 + 1e-6)
    assert layers == pytest.approx(record["val layers"], abs=0.67)


def test_low_rank_updates_match_as_in_validation(small: MakeConfig, features, tmp_path):
    """In training, blocks are computed anew from stored features; to match, the backbone has the updates."""
    config = small(**OVER_A_VIT, run={"epochs": 1}, optimiser={"rate": 0.01, "ema": 0.0})
    train(config, tmp_path, features=features)
    (record,) = json.loads((tmp_path / "history.json").read_text())
    head = tmp_path / "last.safetensors"
    assert load_file(head)["lora.blocks.1.fc2.up"].abs().max() > 1e-3
    pck, layers = matched(config, head)
    assert pck == pytest.approx(record["val mean"], abs=200 / 27 + 1e-6)
    assert layers == pytest.approx(record["val layers"], abs=0.67)
    learned = load_head_for_training(head, "dhpf", config.model.backbone, config.head).eval()
    image = torch.randn(3, 56, 56, generator=torch.Generator().manual_seed(0))
    in_training, to_match = (method.features(image).blocks for method in (learned, load_head(head)))
    assert_close(in_training, to_match, rtol=0, atol=1e-4)
    # Another training may begin with it: at a rate of 0, it stays as it is.
    start, rest = replace(config.model, start=str(head)), replace(config.optimiser, rate=0.0)
    train(replace(config, model=start, optimiser=rest), tmp_path / "on", features=features)
    before, after = load_file(head), load_file(tmp_path / "on" / "last.safetensors")
    for name, weight in before.items():
        assert torch.equal(after[name], weight) or "running_" in name, name


def test_weights_change_and_differ_with_the_seed(finished: Finished, small: MakeConfig, features, tmp_path):
    config = small(run={"seed": 1, "epochs": 1}, data={"per_epoch": 4})
    train(config, tmp_path, features=features)
    one, other = (load_file(folder / "last.safetensors") for folder in (finished.out, tmp_path))
    for layer in range(17):
        key = f"transforms.{layer}.0.weight"
        assert not np.allclose(one[key], other[key])


@pytest.mark.parametrize("seen_before", [["elsewhere.jpg"], None])
def test_a_head_to_begin_with(finished: Finished, small: MakeConfig, features, tmp_path, seen_before):
    """At a rate of nothing, the run ends with the weights that it began with; its photos count as seen."""
    trained, start = finished.out / "last.safetensors", tmp_path / "start.safetensors"
    own = read_metadata(trained)["training_images"].splitlines()
    about = {} if seen_before is None else {"training_images": "\n".join(seen_before)}
    save_head(start, load_head(trained), finished.config.model.backbone, load_file(trained), **about)
    config = small(
        model={"start": str(start)},
        loss={"bn_mode": "none"},
        optimiser={"rate": 0.0},
        run={"epochs": 1, "save_every": 9},
        data={"per_epoch": 2},
    )
    train(config, tmp_path / "run", features=features)
    before, after = (load_file(path) for path in (start, tmp_path / "run" / "last.safetensors"))
    assert before.keys() == after.keys()
    for key, value in before.items():
        np.testing.assert_array_equal(value, after[key])
    expected = None if seen_before is None else tuple(sorted([*seen_before, *own]))
    assert training_images(str(tmp_path / "run" / "last.safetensors")) == expected


def test_a_head_of_another_kind_to_begin_with(finished: Finished, small: MakeConfig, features, tmp_path):
    start = str(finished.out / "last.safetensors")
    config = small(model={"start": start}, head={"gating": "sigmoid"})
    with pytest.raises(InputError, match=r"last\.safetensors does not fit these settings of the head"):
        train(config, tmp_path / "run", features=features)
    config = small(model={"start": start, "backbone": "resnet50"})
    with pytest.raises(
        InputError, match=r"a head of another kind \(dhpf, resnet50-msra\); wanted .*model\.start="
    ):
        train(config, tmp_path / "run", features=features)
    assert not (tmp_path / "run").exists()  # nothing is left behind


def test_the_command(finished: Finished, features, tmp_path, command: Callable, root):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text("[model]\nsize = [64, 64]\n[run]\nepochs = 1\nbatch = 2\n")
    out = tmp_path / "run"
    sets = [f"data.root={root}", "data.per_epoch=2", "data.validation_pairs=1"]
    arguments = ["train", recipe, "--out", out, "--features", features]
    for change in sets:
        arguments += ["--set", change]
    ran = command(*arguments)
    assert ran.code == 0, ran.err
    assert str(out / "best.safetensors") in ran.out
    assert "epoch 1/1" in ran.err
    ran = command(*arguments)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "holds a run already; resume it with --resume" in ran.err
    ran = command(*arguments, "--set", "loss.mi=3")
    assert ran.code == 2 and "did you mean 'loss.mu'" in ran.err
