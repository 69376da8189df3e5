"""The examples run: the tutorial top to bottom as a reader would, and every page with examples in Python."""

from __future__ import annotations

import ast
import functools
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dhpf
from dhpf.matcher import load

from ..conftest import Ran
from .pages import DOCS, Block, blocks, dhpf_arguments, shell_lines

Command = Callable[..., Ran]


def page(name: str) -> list[Block]:
    return blocks((DOCS / name).read_text(encoding="utf-8"))


def run_python(block: Block, names: dict[str, Any], name: str) -> int:
    """Run a block as it would be copied, with the names of those before it; lines that say what they give
    (``# -> value``) must give it. Returns the number of statements."""
    tree = ast.parse(block.text)
    lines = block.text.splitlines()
    for statement in tree.body:
        place = f"{name}, line {block.line + statement.lineno - 1}"
        said = re.search(r"  # -> (.+)$", lines[(statement.end_lineno or statement.lineno) - 1])
        if said and isinstance(statement, ast.Expr):
            value = eval(compile(ast.Expression(statement.value), place, "eval"), names)
            assert repr(value) == said[1], place
        else:
            exec(compile(ast.Module([statement], []), place, "exec"), names)
    return len(tree.body)


def test_what_lines_say_is_checked() -> None:
    names: dict[str, Any] = {}
    assert run_python(Block("python", "x = 3\nx + 1  # -> 4\n", 1), names, "page") == 2
    with pytest.raises(AssertionError, match="line 7"):
        run_python(Block("python", "x\nx + 1  # -> 5\n", 6), names, "page")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_page(name: str, command: Command) -> None:
    """Run everything on a page, top to bottom."""
    names: dict[str, Any] = {}
    for block in page(name):
        if block.language == "python":
            assert run_python(block, names, name) > 0
        else:
            assert block.language == "sh"
            for words in shell_lines(block.text):
                arguments = dhpf_arguments(words)
                assert arguments is not None
                ran = command(*arguments)
                assert ran.code == 0, ran.err


@pytest.mark.default_model
def test_tutorial(folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dhpf.matcher.load", functools.cache(load))  # each model is read once
    run_page("tutorial.md", command)
    said = {"first.png", "points.png", "matched.json", "truth.png", "heat.png", "flow.npz", "warped.png"}
    assert said <= {path.name for path in folder.iterdir()}
    assert len(list((folder / "all-pairs").glob("00*.json"))) == 1
    matched = json.loads((folder / "matched.json").read_text(encoding="utf-8"))
    marks = json.loads((folder / "b.json").read_text(encoding="utf-8"))
    # The command line and Python agree.
    np.testing.assert_allclose(matched["target_points"], marks["target_points"], atol=2)


@pytest.mark.filterwarnings("ignore:csv does not hold boxes")  # as the page says
def test_label_a_folder(folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Annotate 1, get 30, correct 3, export COCO, train on it."""
    monkeypatch.setattr("dhpf.matcher.load", functools.cache(load))
    run_page("label_a_folder.md", command)
    said = {"first.json", "look.html", "second.json", "second.csv", "match.png"}
    assert said <= {path.name for path in folder.iterdir()}
    assert (folder / "runs/things/best.safetensors").is_file()


def test_train_on_your_own(folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """From an annotation file to a match."""
    monkeypatch.setattr("dhpf.matcher.load", functools.cache(load))
    run_page("train_on_your_own.md", command)
    assert (folder / "runs/few/best.safetensors").is_file()
    assert (folder / "match.png").stat().st_size > 10_000


def test_quick_start(folder: Path, monkeypatch: pytest.MonkeyPatch, matcher: dhpf.Matcher) -> None:
    monkeypatch.setattr(dhpf, "load", lambda: matcher, raising=False)
    shutil.copy(dhpf.sample("cheetah"), "a.jpg")
    shutil.copy(dhpf.sample("cheetah_cub"), "b.jpg")
    [example] = (block for block in page("index.md") if block.language == "python")
    exec(example.text, {})
    assert (folder / "match.png").stat().st_size > 10_000


def test_a_method_of_ones_own(folder: Path) -> None:
    """It matches, learns and is evaluated, in less than 60 lines."""
    code = [block for block in page("add_a_method.md") if block.language == "python"]
    assert sum(len([line for line in block.text.splitlines() if line]) for block in code) < 60
    names: dict[str, Any] = {}
    for block in code:
        run_python(block, names, "add_a_method.md")
    assert names["losses"][-1] < names["losses"][0]
    assert len(names["score"].pair_values) == len(names["found"]) > 0
    assert (folder / "weighed.png").stat().st_size > 10_000


@pytest.mark.parametrize("name", ["drawing.md", "training.md"])
def test_python_examples(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, matcher: dhpf.Matcher
) -> None:
    monkeypatch.setattr(dhpf, "load", lambda: matcher, raising=False)
    names: dict[str, Any] = {}
    tried = sum(run_python(block, names, name) for block in page(name) if block.language == "python")
    assert tried > 2
