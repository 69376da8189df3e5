"""``dhpf analyse`` as a person runs it: three ways, and what is wrong in one line."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from dhpf.model.checkpoint import save_head
from dhpf.model.network import DHPF
from dhpf.model.weights import load_backbone
from PIL import Image

from dhpf.data import make_mini
from dhpf.evaluate.predictions import Predictions

from ..conftest import Ran, texture

Command = Callable[..., Ran]
Make = Callable[..., Predictions]


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A head file with arbitrary weights, whose gates are on about half of the time."""
    torch.manual_seed(0)
    network = DHPF(load_backbone("resnet50-msra"))
    path = tmp_path_factory.mktemp("head") / "arbitrary.safetensors"
    save_head(path, network.head().state_dict(), {"backbone": "resnet50-msra"})
    return path


def test_files_make_a_whole_report(make: Make, tmp_path: Path, command: Command) -> None:
    categories = ["cat", "bus", "sofa"]
    make([{0, 1}, {1}, {1, 2}], categories, model="one").save(tmp_path / "one.npz")
    make([{0, 1}, {1}, {1}], categories, model="<two>").save(tmp_path / "two.npz")
    ran = command("analyse", tmp_path / "one.npz", tmp_path / "two.npz", "--out", tmp_path / "out")
    assert ran.code == 0, ran.err
    assert "wrote" in ran.out and "Time per pair: not measured" in ran.out
    names = {path.name for path in (tmp_path / "out").iterdir()}
    figures = {name[:-4] for name in names if name.endswith(".svg")}
    assert figures == {
        *("layer_counts", "dimension", "agreement-17-layers", "agreement_beyond_habit-17-layers"),
        *("layers_by_category-1-one", "layers_by_category-2-_two_"),
        *("gates_by_category-1-one", "gates_by_category-2-_two_"),
    }
    assert names == {f"{figure}.{ending}" for figure in figures for ending in ("png", "svg", "csv")} | {
        *("report.html", "analysis.json", "overview.csv")
    }
    found = json.loads((tmp_path / "out" / "analysis.json").read_text())
    layers = [each["all"]["mean_layers"] for each in found["models"]]
    assert layers == pytest.approx([5 / 3, 4 / 3], abs=1e-6)
    assert found["models"][0]["categories"]["bus"]["frequency"][:3] == [0, 1, 0]
    assert found["models"][0]["all"]["mean_dimension"] == pytest.approx((40 + 32 + 64) / 3, abs=1e-3)
    assert found["agreement"][0]["mean_jaccard"] == pytest.approx((1 + 1 + 0.5) / 3, abs=1e-6)
    assert found["models"][0]["time"] is None and found["timed_with"] is None
    page = (tmp_path / "out" / "report.html").read_text()
    assert not re.search(r"(src|href)=\"(?!#|data:)|@import|url\((?!#)", page)  # no other file
    assert "&lt;two&gt;" in page and "<two>" not in page
    assert "prefers-color-scheme: dark" in page and page.count("<svg ") == len(figures)
    with (tmp_path / "out" / "overview.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["layers on"] for row in rows] == ["1.67", "1.33"] and rows[0]["ms a pair"] == ""


def test_models_are_predicted_and_timed(head: Path, tmp_path: Path, command: Command) -> None:
    make_mini("pf-pascal", tmp_path / "data")
    ran = command(
        *("analyse", "--model", head, "--model", "hpf-resnet50", "--dataset", "pf-pascal", "--root"),
        *(tmp_path / "data", "--size", 64, "--timed-pairs", 2, "--out", tmp_path / "new" / "out"),
    )
    assert ran.code == 0, ran.err
    out = tmp_path / "new" / "out"
    found = json.loads((out / "analysis.json").read_text())
    arbitrary, static = found["models"]
    assert (arbitrary["label"], arbitrary["gated"], arbitrary["rho"]) == ("arbitrary", True, 8)
    assert (static["label"], static["gated"], static["rho"]) == ("hpf-resnet50", False, 1)
    assert static["all"]["mean_dimension"] == 256 + 512 + 2 * 1024 + 2048  # layers 2, 7, 11, 12, 15
    stored = Predictions.load(out / "predictions-1-arbitrary.npz")
    assert stored.layers is not None
    assert arbitrary["all"]["frequency"] == pytest.approx(stored.layers.mean(axis=0).tolist(), abs=1e-6)
    assert arbitrary["time"]["pairs"] == 2 and arbitrary["time"]["median_ms"] > 0
    assert found["timed_with"]["input_size"] == [64, 64]
    with (out / "quality_against_time.csv").open() as stream:
        timed = {row["model"]: row for row in csv.DictReader(stream)}
    for each in found["models"]:
        row = timed[each["label"]]
        assert float(row["median ms"]) == pytest.approx(each["time"]["median_ms"], abs=1e-3)
        assert float(row["PCK@0.1"]) == pytest.approx(each["quality"]["value"], abs=1e-3)
    assert "not measured" not in ran.out


def test_masks_are_quoted_by_their_iou(tmp_path: Path, command: Command) -> None:
    make_mini("caltech-101", tmp_path / "data")
    ran = command(
        *("analyse", "--model", "hpf-resnet50", "--dataset", "caltech-101", "--root", tmp_path / "data"),
        *("--size", 64, "--timed-pairs", 1, "--out", tmp_path / "out"),
    )
    assert ran.code == 0, ran.err
    assert "IoU" in ran.out and "Neither animals, vehicles nor man-made: bonsai." in ran.out
    (model,) = json.loads((tmp_path / "out" / "analysis.json").read_text())["models"]
    assert model["quality"]["metric"] == "IoU"
    assert [each["group"] for each in model["categories"].values()] == ["vehicles", "man-made", "other"]


def test_one_pair(head: Path, tmp_path: Path, command: Command) -> None:
    for name, seed in (("a.png", 1), ("b.png", 2)):
        Image.fromarray(texture(70, 60, seed)).save(tmp_path / name)
    (tmp_path / "points.csv").write_text("x,y\n10,20\n")
    ran = command(
        *("analyse", "--pair", tmp_path / "a.png", tmp_path / "b.png", "--model", head, "--size", 64),
        *("--points", tmp_path / "points.csv", "--out", tmp_path / "out"),
    )
    assert ran.code == 0, ran.err
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        f"pair.{x}" for x in ("png", "svg", "csv", "json")
    }
    stored = json.loads((tmp_path / "out" / "pair.json").read_text())
    assert stored["source_points"] == [[10, 20]] and len(stored["effects"]) == 17
    assert [effect["layer"] for effect in stored["effects"] if effect["on"]] == stored["layers"]
    on, off = ran.out.count(" on "), ran.out.count(" off ")
    assert (on, off) == (len(stored["layers"]), 17 - len(stored["layers"]))


def test_different_splits_are_told_apart_not_compared(make: Make, tmp_path: Path, command: Command) -> None:
    make([{1}], model="m").save(tmp_path / "test.npz")
    make([{1}], model="m", split="val").save(tmp_path / "val.npz")
    ran = command("analyse", tmp_path / "test.npz", tmp_path / "val.npz", "--out", tmp_path / "out")
    assert ran.code == 0, ran.err
    assert "Agreement: not computed for 1 of 1 pairs of models; different pairs: pf-pascal test" in ran.out
    assert not list((tmp_path / "out").glob("agreement*"))
    found = json.loads((tmp_path / "out" / "analysis.json").read_text())
    assert [each["label"] for each in found["models"]] == ["test", "val"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give predictions files, or --model with --dataset and --root, or --pair A B"),
        (["p.npz", "--pair", "a", "b"], "give predictions files, or"),
        (["p.npz", "--model", "hpf-resnet50"], "give files or --model, not both"),
        (["p.npz", "p.npz"], "the same predictions file is given twice"),
        (["none.npz"], "none.npz: no such file"),
        (["p.npz", "--out", "p.npz"], "p.npz is a file; wanted: a folder"),
        (["p.npz", "--points", "q.csv"], "--points are for one pair"),
        (["other.npz"], "other.npz: does not say which layers were chosen"),
        (["empty.npz"], "empty.npz: holds no pair and skips 1"),
        (
            ["--model", "hpf-resnet50", "--dataset", "pf-pascal"],
            "--dataset pf-pascal needs its folder: --root",
        ),
        (["--dataset", "pf-pascal", "--root", "no"], "no"),
        (["--pair", "none.jpg", "none.jpg"], "none.jpg"),
        (["--pair", "a.png", "a.png", "--model", "x", "--model", "y"], "--pair looks at one model"),
    ],
)
def test_what_is_wrong_is_one_line(
    arguments: list[str],
    message: str,
    make: Make,
    tmp_path: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    make([{1}]).save(tmp_path / "p.npz")
    replace(make([{1}]), layers=None, gate_probabilities=None).save(tmp_path / "other.npz")
    make([], skipped=[("a", "no image")]).save(tmp_path / "empty.npz")
    ran = command("analyse", *arguments)
    assert ran.code == 2 and ran.out == "" and message in ran.err
    assert ran.err.startswith("dhpf: error: ") and ran.err.count("\n") == 1
    assert not (tmp_path / "analysis").exists()


def test_the_same_model_twice_is_refused(tmp_path: Path, command: Command) -> None:
    make_mini("pf-pascal", tmp_path / "data")
    ran = command(
        *("analyse", "--model", "hpf-resnet50", "--model", "hpf-resnet50", "--dataset", "pf-pascal"),
        *("--root", tmp_path / "data", "--size", 64, "--out", tmp_path / "out"),
    )
    assert ran.code == 2 and "the same model is given twice" in ran.err
