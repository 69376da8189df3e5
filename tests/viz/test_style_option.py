"""``--style`` and ``--truth`` on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from dhpf.zoo import find_head
from tests.conftest import texture
from tests.test_cli import Command, refused, size_of


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with two photos of 60 x 40 pixels and points."""
    monkeypatch.chdir(tmp_path)
    for name, seed in (("a.png", 0), ("b.png", 1)):
        Image.fromarray(texture(60, 40, seed)).save(name)
    Path("points.json").write_text("[[10, 10], [50, 12], [20, 35]]")
    Path("two.json").write_text("[[1, 2], [30, 20]]")
    return tmp_path


@pytest.mark.parametrize(
    ("style", "given", "width"),
    [
        ("lines", "", 2 * 720 + 12),
        ("truth", "--points points.json --truth truth.csv", 2 * 720 + 12),
        ("warp", "", 3 * 720 + 2 * 12),
        ("flow", "--points points.json", 2 * (720 + 12) + 210),
        ("heat", "--points one.json", 2 * 720 + 12),
    ],
)
def test_styles(command: Command, folder: Path, style: str, given: str, width: int) -> None:
    Path("truth.csv").write_text("x,y\n12,10\n52,12\n20,45\n")  # the last is outside, as some in data sets
    Path("one.json").write_text("[[10, 10]]")
    options = ["--size", "64", "--style", style, "--out", "s.png", *given.split()]
    ran = command("match", "a.png", "b.png", *options)
    assert (ran.code, ran.err) == (0, "")
    assert size_of("s.png")[0] == width


def test_heat_of_nearest_neighbours(command: Command, folder: Path) -> None:
    options = ["--size", "64", "--style", "heat", "--out", "s.png", "--points", "10,10"]
    ran = command("match", "a.png", "b.png", *options, "--model", "nearest-resnet50")
    assert (ran.code, ran.err) == (0, "")


def test_styles_of_many_pairs(command: Command, folder: Path) -> None:
    assert command("match-many", ".", "--out", "m", "--size", "64", "--draw", "--style", "warp").code == 0
    assert size_of(next(map(str, Path("m").glob("*.png"))))[0] == 3 * 720 + 2 * 12
    many = ("match-many", ".", "--out", "n")
    assert "needs points of one pair" in refused(command, folder, *many, "--draw", "--style", "heat")
    assert "did you mean 'warp'?" in refused(command, folder, *many, "--draw", "--style", "wrap")
    assert "--style is how --draw draws" in refused(command, folder, *many, "--style", "warp")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("--style flwo", "unknown style 'flwo': did you mean 'flow'?"),
        ("--style flow --json m.json", "--style is how the picture is drawn: name it with --out"),
        ("--style heat", "give exactly one in points, not none"),
        ("--style heat --points points.json", "give exactly one in points, not 3"),
        ("--style heat --model rtns-resnet50", "rtns-resnet50 keeps no scores of single matches for style"),
        ("--style heat --model head.safetensors --points 3,4", "choose lines, points, truth, warp, flow"),
        ("--style truth --points points.json", "needs source points and where they belong"),
        ("--style truth --truth points.json", "needs source points and where they belong"),
        ("--points points.json --truth points.json", "style 'lines' shows no true locations"),
        ("--style truth --points points.json --truth two.json", "3 points, 2 true locations"),
        ("--style truth --points points.json --truth none.json", "no such points file: none.json"),
        ("--style truth --points points.json --truth t.csv --out t.csv", "must end in .png"),
    ],
)
def test_what_does_not_go_together(command: Command, folder: Path, options: str, complaint: str) -> None:
    Path("head.safetensors").write_bytes(find_head("cnngeo-resnet50").read_bytes())
    assert complaint in refused(command, folder, "match", "a.png", "b.png", *options.split())
