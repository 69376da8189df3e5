"""``dhpf predict``, ``evaluate`` and ``beam-search``: options arrive, and what is printed is true."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import typer
from tests.test_own_backbone_and_method import TwoConvolutions
from typer.testing import CliRunner, Result

from dhpf.cli import evaluate
from dhpf.data import make_mini, open_dataset
from dhpf.errors import InputError
from dhpf.evaluate.predictions import Predictions
from dhpf.evaluate.protocol import protocol_for
from dhpf.evaluate.score import score_predictions
from dhpf.evaluate.tables import to_dict
from dhpf.methods.hpf import HPF, HPFConfig


def run(*arguments: str | Path) -> Result:
    app = typer.Typer()
    app.command("predict")(evaluate.predict)
    app.command("evaluate")(evaluate.evaluate)
    app.command("beam-search")(evaluate.beam_search)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    make_mini("spair-71k", folder / "spair")
    make_mini("pf-pascal", folder / "pascal")
    return folder


def test_predict_then_score_is_evaluate(folder: Path, tmp_path: Path) -> None:
    common = ["--dataset", "spair-71k", "--root", folder / "spair", "--size", "64"]
    predicted = run("predict", *common, "--out", tmp_path / "p.npz")
    assert predicted.exit_code == 0, predicted.output
    assert f"6 pairs predicted, 0 skipped: {tmp_path / 'p.npz'}" in predicted.output
    scored = score_predictions(
        Predictions.load(tmp_path / "p.npz"), protocol_for("spair-71k", changes=["average=point"]), [0.2]
    )
    options = ["--alpha", "0.2", "--set", "average=point", "--json", tmp_path / "s.json"]
    both = run("evaluate", *common, *options)
    assert both.exit_code == 0, both.output
    assert json.loads((tmp_path / "s.json").read_text()) == json.loads(json.dumps(to_dict(scored)))
    assert "PCK@0.2" in both.output and scored.fingerprint in both.output
    assert {path.name for path in tmp_path.iterdir()} == {"p.npz", "s.json"}  # nothing kept unasked
    kept = run("evaluate", *common, "--out", tmp_path / "kept.npz", "--alpha", "0.1")
    assert kept.exit_code == 0
    assert (tmp_path / "kept.npz").read_bytes() == (tmp_path / "p.npz").read_bytes()


def test_a_limit_and_json_on_standard_output(folder: Path, tmp_path: Path) -> None:
    common = ["--dataset", "pf-pascal", "--root", folder / "pascal", "--size", "64", "--limit", "3"]
    done = run("evaluate", *common, "--json", "-", "--out", tmp_path / "p.npz")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["pairs"], found["split_pairs"], found["notes"]) == (3, 9, ["3 of 9 pairs of the split"])
    assert found["config"] and found["calibration"]["bins"]
    assert f"3 pairs predicted, 0 skipped: {tmp_path / 'p.npz'}" in done.stderr


@pytest.mark.parametrize("name", ["pf-pascal", "pf-willow", "caltech-101", "spair-71k", "coco"])
def test_a_second_run_replaces_what_the_first_wrote_into_the_data_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_mini(name, tmp_path)
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    monkeypatch.chdir(tmp_path)
    split = "all" if name == "coco" else "test"
    unnamed = run(
        "predict", "--dataset", name, "--root", ".", "--size", "64", "--limit", "1", "--out", "p.npz"
    )
    assert unnamed.exit_code == 0 and Predictions.load("p.npz").split == split, unnamed.exception
    Path("p.npz").unlink()
    common = ["--dataset", name, "--root", ".", "--split", split, "--size", "64", "--limit", "1"]
    for _ in range(2):
        done = run("evaluate", *common, "--json", "r.json", "--html", "r.html")
        assert done.exit_code == 0, done.exception
        assert json.loads(Path("r.json").read_text())["pairs"] == 1
    read = {path.resolve() for path in open_dataset(name, ".", split).files()}
    assert len(read & set(files)) > 4
    for path in sorted(read & set(files))[:: max(1, len(read) // 8)]:
        done = run("evaluate", *common, "--json", path.relative_to(tmp_path))
        assert "is an input" in str(done.exception), path
    assert all(path.read_bytes() == content for path, content in files.items())


@pytest.mark.parametrize("option", ["--json", "--csv", "--markdown", "--html"])
def test_no_output_of_evaluate_replaces_another_or_an_input(
    option: str, folder: Path, tmp_path: Path
) -> None:
    out, head = tmp_path / "e.npz", tmp_path / "head.safetensors"
    head.write_bytes(b"head")
    common = ["--dataset", "pf-pascal", "--root", folder / "pascal"]
    for arguments in (
        ["--out", out, option, out],
        ["--model", head, option, head],
        ["--model", head, "--out", head],
    ):
        done = run("evaluate", *common, *arguments)
        assert re.search("is an input|two outputs have the same name", str(done.exception)), arguments
    images = sorted((folder / "pascal" / "JPEGImages").iterdir())
    for read in (folder / "pascal" / "test_pairs.csv", images[-1]):
        for command in (["evaluate", *common, option, read], ["predict", *common, "--out", read]):
            assert f"{read} is an input" in str(run(*command).exception)
    assert [path.name for path in tmp_path.iterdir()] == ["head.safetensors"] and head.read_bytes() == b"head"


def test_the_small_layout_has_fewer_pairs_and_says_so(folder: Path, tmp_path: Path) -> None:
    common = ["--dataset", "spair-71k", "--root", folder / "spair", "--size", "64", "--layout", "small"]
    run("predict", *common, "--out", tmp_path / "p.npz")
    found = Predictions.load(tmp_path / "p.npz")
    assert (len(found), found.split) == (3, "test, small layout")
    wrong = run(
        "predict",
        "--dataset",
        "pf-pascal",
        "--root",
        folder,
        "--layout",
        "small",
        "--out",
        tmp_path / "q.npz",
    )
    assert isinstance(wrong.exception, InputError) and "only spair-71k has layouts" in str(wrong.exception)


def test_evaluate_predicts_in_the_direction_of_the_protocol(folder: Path, tmp_path: Path) -> None:
    common = ["--dataset", "pf-pascal", "--root", folder / "pascal", "--size", "64"]
    done = run("evaluate", *common, "--protocol", "nc-net", "--out", tmp_path / "p.npz")
    assert done.exit_code == 0, done.output
    assert Predictions.load(tmp_path / "p.npz").direction == "target-to-source"
    assert "direction=target-to-source" in done.output


def test_skips_are_shown(tmp_path: Path) -> None:
    make_mini("pf-pascal", tmp_path / "root")
    broken = tmp_path / "root" / "JPEGImages" / "2008_001003.jpg"  # in all test pairs of its category
    broken.write_bytes(b"")
    done = run(
        *("predict", "--dataset", "pf-pascal", "--root", tmp_path / "root", "--size", "64"),
        *("--out", tmp_path / "p.npz"),
    )
    assert "6 pairs predicted, 3 skipped" in done.output
    told = [line for line in done.output.splitlines() if line.startswith("dhpf: skipped")]
    assert len(told) == 3 and all(str(broken) in line for line in told)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--protocol", "dhfp"], "did you mean 'dhpf'"),
        (["--json", "no/such/folder/s.json"], "there is no folder"),
        (["--split", "training"], "no split 'training'"),
        (["--out", "no/such/folder/p.npz"], "there is no folder"),
        (["--size", "12"], "each side must be from"),
    ],
)
def test_errors_come_before_the_work(arguments: list[str], message: str, folder: Path) -> None:
    done = run("evaluate", "--dataset", "pf-pascal", "--root", folder / "pascal", *arguments)
    assert isinstance(done.exception, InputError) and message in str(done.exception)


@pytest.mark.parametrize("command", ["predict", "evaluate", "beam-search"])
def test_a_size_that_was_rounded_is_noted_once(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    method = HPF(TwoConvolutions(), HPFConfig(layers=(0, 1)))  # it takes multiples of 8
    monkeypatch.setattr("dhpf.matcher.load_method", lambda *_: method)
    common = [command, "--dataset", "pf-pascal", "--root", folder / "pascal"]
    out = [] if command == "beam-search" else ["--out", tmp_path / "p.npz"]
    rounded = run(*common, *out, "--size", "61x64")
    assert rounded.exit_code == 0, rounded.output
    assert rounded.output.count("note: input of 64x64, as this model takes multiples of 8\n") == 1
    assert "note" not in run(*common, *out, "--size", "64").output


def test_under_torchrun_evaluate_needs_a_file_to_meet_in(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    done = run("evaluate", "--dataset", "pf-pascal", "--root", folder / "pascal")
    assert isinstance(done.exception, InputError) and "--out FILE.npz" in str(done.exception)


def test_a_share_alone_is_not_the_whole(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes that are started by hand: the second takes its share, then the first finds all and writes."""
    common = ["predict", "--dataset", "pf-pascal", "--root", folder / "pascal", "--size", "64"]
    run(*common, "--out", tmp_path / "whole.npz")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    early = run(*common, "--out", tmp_path / "p.npz")
    assert "5 of 9 pairs are not finished" in str(early.exception)
    monkeypatch.setenv("RANK", "1")
    assert run(*common, "--out", tmp_path / "p.npz").output == ""
    monkeypatch.setenv("RANK", "0")
    run(*common, "--out", tmp_path / "p.npz")
    assert (tmp_path / "p.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()


def test_beam_search_prints_and_stores_each_step(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DHPF_HOME", str(tmp_path / "home"))
    done = run(
        *("beam-search", "--dataset", "pf-pascal", "--root", folder / "pascal", "--size", "64"),
        *("--beam", "2", "--max-layers", "2", "--alpha", "0.05", "--exclude-pairs-of", "test"),
        *("--json", tmp_path / "b.json"),
    )
    assert done.exit_code == 0, done.output
    stored = json.loads((tmp_path / "b.json").read_text())
    assert [step["tried"] for step in stored["steps"]] == [17, 31]
    assert [len(step["beam"]) for step in stored["steps"]] == [2, 2]
    assert (stored["model"], stored["alpha"], stored["pairs"]) == ("hpf-resnet50", 0.05, 3)
    found = stored["found"]
    assert f"found   {found['pck']:6.2f}  {tuple(found['layers'])}" in done.output
    assert f"before  {stored['reference']['pck']:6.2f}  (2, 7, 11, 12, 15)" in done.output
