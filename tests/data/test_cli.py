"""``dhpf data`` as a person runs it."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from dhpf.cli.data import app
from dhpf.errors import InputError


def run(*arguments: str | Path, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result.output


def test_mini_then_check_then_damage(tmp_path):
    assert "wrote a mini spair-71k" in run("mini", "spair-71k", tmp_path / "spair")
    assert "test: 6 pairs" in run("check", tmp_path / "spair")
    (tmp_path / "spair" / "Layout" / "large" / "val.txt").unlink()
    assert "not complete" in run("check", tmp_path / "spair", code=1)


def test_list_names_all_and_where_they_would_be(tmp_path, monkeypatch):
    monkeypatch.setenv("DHPF_HOME", str(tmp_path))
    (tmp_path / "datasets" / "PF-WILLOW").mkdir(parents=True)
    lines = run("list").splitlines()
    assert [line.split(":")[0] for line in lines if not line.startswith(" ")] == [
        "caltech-101", "coco", "pf-pascal", "pf-willow", "spair-71k",
    ]  # fmt: skip
    assert lines[lines.index("coco") + 4] == "  folder     any"
    assert f"  folder     {tmp_path}/datasets/PF-WILLOW" in lines
    assert f"  folder     {tmp_path}/datasets/SPair-71k (not downloaded)" in lines


def test_download_of_what_is_there_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("DHPF_HOME", str(tmp_path))
    (tmp_path / "datasets" / "PF-WILLOW").mkdir(parents=True)
    assert "pf-willow is already in" in run("download", "pf-willow")


def test_input_errors_reach_the_main_program(tmp_path):
    result = CliRunner().invoke(app, ["check", str(tmp_path / "absent")])
    assert isinstance(result.exception, InputError)
    result = CliRunner().invoke(app, ["download", "pf-wilow"])
    assert isinstance(result.exception, InputError)
    assert "did you mean 'pf-willow'?" in str(result.exception)
    result = CliRunner().invoke(app, ["download", "coco"])
    assert "nothing to download" in str(result.exception)


def test_a_coco_folder_is_checked(tmp_path):
    run("mini", "coco", tmp_path / "own")
    assert run("check", tmp_path / "own").splitlines() == [
        f"coco in {tmp_path / 'own'}",
        "  all: 12 pairs",
        "  images: 8 named by the lists",
        "complete",
    ]
