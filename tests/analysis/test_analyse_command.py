"""``dhpf analyse`` as a person runs it: three ways, and what is wrong in one line."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

from dhpf.backbones.weights import load_backbone
from dhpf.data import make_mini
from dhpf.evaluate.predictions import Predictions
from dhpf.heads import save_head
from dhpf.methods.dhpf import DHPF

from ..conftest import Ran, texture

Command = Callable[..., Ran]
Make = Callable[..., Predictions]


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A head file with arbitrary weights, whose gates are on about half of the time."""
    torch.manual_seed(0)
    method = DHPF(load_backbone("resnet50-msra"))
    path = tmp_path_factory.mktemp("head") / "arbitrary.safetensors"
    save_head(path, method, "resnet50-msra", method.head().state_dict())
    return path


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open() as stream:
        return list(csv.DictReader(stream))


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
        *("layer_counts", "layer_frequency", "layers_by_category-1-one", "layers_by_category-2-_two_"),
        *("gates_by_category-1-one", "gates_by_category-2-_two_"),
    }
    assert names == {f"{figure}.{ending}" for figure in figures for ending in ("png", "svg", "csv")} | {
        *("report.html", "overview.csv")
    }
    rows = rows_of(tmp_path / "out" / "overview.csv")
    assert [(row["layers"], row["of"], row["ms"]) for row in rows] == [("1.67", "12", ""), ("1.33", "12", "")]
    page = (tmp_path / "out" / "report.html").read_text()
    assert not re.search(r"(src|href)=\"(?!#|data:)|@import|url\((?!#)", page)  # no other file
    assert "&lt;two&gt;" in page and "<two>" not in page
    assert page.count("<svg ") == len(figures)


def test_models_are_predicted_and_timed(head: Path, tmp_path: Path, command: Command) -> None:
    make_mini("pf-pascal", tmp_path / "data")
    ran = command(
        *("analyse", "--model", head, "--model", "hpf-resnet50", "--dataset", "pf-pascal", "--root"),
        *(tmp_path / "data", "--size", 64, "--timed-pairs", 2, "--out", tmp_path / "new" / "out"),
    )
    assert ran.code == 0, ran.err
    out = tmp_path / "new" / "out"
    arbitrary, static = rows_of(out / "overview.csv")
    assert (arbitrary["model"], static["model"]) == ("arbitrary", "hpf-resnet50")
    assert (static["layers"], static["of"]) == ("5.0", "17")
    stored = Predictions.load(out / "predictions-1-arbitrary.npz")
    assert stored.layers is not None
    *_, everyone = rows_of(out / "layers_by_category-1-arbitrary.csv")
    frequency = [float(everyone[f"layer {layer}"]) for layer in range(17)]
    assert frequency == pytest.approx(stored.layers.mean(axis=0).tolist(), abs=1e-6)
    timed = {row["model"]: row for row in rows_of(out / "accuracy_against_time.csv")}
    for row in (arbitrary, static):
        assert timed[row["model"]]["pairs timed"] == "2"
        assert float(timed[row["model"]]["median ms"]) == pytest.approx(float(row["ms"]), abs=0.051)
        assert float(timed[row["model"]]["PCK@0.1"]) == pytest.approx(float(row["value"]), abs=0.0051)
    assert "not measured" not in ran.out


def test_masks_are_quoted_by_their_iou(tmp_path: Path, command: Command) -> None:
    make_mini("caltech-101", tmp_path / "data")
    ran = command(
        *("analyse", "--model", "hpf-resnet50", "--dataset", "caltech-101", "--root", tmp_path / "data"),
        *("--size", 64, "--timed-pairs", 1, "--out", tmp_path / "out"),
    )
    assert ran.code == 0, ran.err
    assert "IoU" in ran.out
    assert rows_of(tmp_path / "out" / "overview.csv")[0]["metric"] == "IoU"


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
        f"pair.{ending}" for ending in ("png", "svg", "csv")
    }
    rows = rows_of(tmp_path / "out" / "pair.csv")
    layers = [row["layer"] for row in rows if row["state"] == "on"]
    assert len(rows) == 17 and f"arbitrary.safetensors: layers {', '.join(layers)}; 1 points" in ran.out
    assert (ran.out.count(" on "), ran.out.count(" off ")) == (len(layers), 17 - len(layers))


def test_without_matplotlib_one_line_names_the_cure(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    ran = command("analyse", "--pair", "a.jpg", "b.jpg")
    assert ran.code == 2 and ran.err.endswith("pip install 'dhpf[plots]'\n")  # the brackets are there
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give predictions files, or --model with --dataset and --root, or --pair A B"),
        (["p.npz", "--pair", "a", "b"], "give predictions files, or"),
        (["p.npz", "--model", "hpf-resnet50"], "give files or --model, not both"),
        (["p.npz", "p.npz"], "the same predictions file is given twice"),
        (["none.npz"], "none.npz: no such file"),
        (["p.npz", "--out", "p.npz"], "cannot make the folder p.npz: File exists"),
        (["p.npz", "--points", "q.csv"], "--points are for one pair"),
        (["other.npz"], "other.npz: some chooses no layers; there is nothing to draw"),
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
