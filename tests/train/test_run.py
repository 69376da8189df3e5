"""What a run leaves behind: heads that match as they did in validation, and say how they were made."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file

import dhpf
from dhpf.errors import InputError
from dhpf.evaluate.metrics import pair_pck
from dhpf.evaluate.predict import predict
from dhpf.evaluate.protocol import protocol_for
from dhpf.evaluate.provenance import code_version, training_images
from dhpf.model.checkpoint import load_head, read_metadata, save_head
from dhpf.train.config import Config, make_config
from dhpf.train.features import FeatureStore
from dhpf.train.loop import train
from dhpf.train.sources import open_sources
from dhpf.train.validate import validate

from .conftest import Finished, MakeConfig


def test_heads_say_how_they_were_made(finished: Finished):
    history = json.loads((finished.out / "history.json").read_text())
    best = max(range(2), key=lambda epoch: history[epoch]["val mean"])
    for name, epoch in (("best", best), ("last", 1)):
        about = read_metadata(finished.out / f"{name}.safetensors")
        assert make_config(json.loads(about["config"]), "head") == finished.config
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


def evaluated(config: Config, head: Path, out: Path) -> tuple[float, float]:
    """PCK of the held-out pairs by the way of 'dhpf evaluate', and layers on average."""
    matcher = dhpf.load(head, size=config.model.size)
    (held_out,) = open_sources(config.data, config.run.seed, True).validation
    found = predict(matcher, held_out, out, workers=1).predictions
    assert found is not None and found.layers is not None
    scores = pair_pck(found, protocol_for("pf-pascal", "dhpf"), [0.1])
    return float(scores.mean()), float(found.layers.sum(1).mean())


def test_validation_is_what_evaluate_says(finished: Finished, tmp_path):
    pck, layers = evaluated(finished.config, finished.out / "last.safetensors", tmp_path / "found.npz")
    record = json.loads((finished.out / "history.json").read_text())[-1]
    assert pck == pytest.approx(record["val mean"], abs=100 / 27 + 1e-6)  # a point of 27, for float16
    assert layers == pytest.approx(record["val layers"], abs=0.34)


VARIANTS = {
    "squared": {"model": {"once": False}},
    "sigmoid": {"model": {"gating": "sigmoid"}, "loss": {"select": 0.0}},
    "sigmoid squared": {"model": {"gating": "sigmoid", "once": False}, "loss": {"select": 1.0}},
    "sigmoid l1": {"model": {"gating": "sigmoid"}, "loss": {"select": 0.0, "l1": 1.0}},
    "all layers": {"model": {"gating": "none"}},
    "without transform": {"model": {"transform": False}},
    "without hough": {"model": {"hough": False}},
    "without omega and select": {"loss": {"omega": False, "select": 0.0, "spread": 1.0, "dropout": 0.2}},
    "all statistics": {"optimiser": {"statistics": "all"}},
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
    network = load_head(head)
    expected = changes.get("model", {})
    assert {key: getattr(network.kind, key) for key in expected} == expected
    # The same path from the head's file, on the same stored features: the same figures.
    store = FeatureStore(backbone, config.model.backbone, config.model.size, features, 10**9)
    again = validate(network, open_sources(config.data, 0, True).validation, store, (0, 1))
    assert again["mean"] == pytest.approx(record["val mean"], abs=1e-6)
    assert again["layers"] == record["val layers"]
    assert store.computed == 0
    # And by the way that everyone goes, whose features are not rounded to float16.
    pck, layers = evaluated(config, head, tmp_path / "found.npz")
    assert pck == pytest.approx(record["val mean"], abs=200 / 27 + 1e-6)
    assert layers == pytest.approx(record["val layers"], abs=0.67)


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
    about = read_metadata(finished.out / "last.safetensors")
    own = about.pop("training_images").splitlines()
    if seen_before is not None:
        about["training_images"] = "\n".join(seen_before)
    start = tmp_path / "start.safetensors"
    save_head(start, load_file(finished.out / "last.safetensors"), about)
    config = small(
        model={"start": str(start)},
        optimiser={"rate": 0.0, "statistics": "none"},
        run={"epochs": 1, "save_every": 9},
        data={"per_epoch": 2},
    )
    train(config, tmp_path / "run", features=features)
    before, after = (load_head(p).head() for p in (start, tmp_path / "run" / "last.safetensors"))
    for key, value in before.state_dict().items():
        np.testing.assert_array_equal(value, after.state_dict()[key])
    expected = None if seen_before is None else tuple(sorted([*seen_before, *own]))
    assert training_images(str(tmp_path / "run" / "last.safetensors")) == expected


def test_a_head_of_another_kind_to_begin_with(finished: Finished, small: MakeConfig, features, tmp_path):
    start = str(finished.out / "last.safetensors")
    config = small(model={"start": start, "gating": "sigmoid"})
    with pytest.raises(
        InputError, match=r"a head of another kind .*gumbel.*; wanted .*sigmoid.* model\.start="
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
    assert "holds a run already; go on with --resume" in ran.err
    ran = command(*arguments, "--set", "loss.mi=3")
    assert ran.code == 2 and "did you mean 'loss.mu'" in ran.err
