"""The command line: what it writes, and its one line for everything that is given wrongly."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import save_file

import dhpf
from dhpf.model.models import MODELS
from dhpf.model.weights import ASSETS, BACKBONES
from tests.conftest import Ran, texture
from tests.test_bad_images import FILES
from tests.test_heads import published

Command = Callable[..., Ran]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with two photos and points."""
    monkeypatch.chdir(tmp_path)
    for name, seed in (("a.png", 0), ("b.png", 1)):
        Image.fromarray(texture(60, 40, seed)).save(name)
    Path("points.json").write_text("[[10, 10], [50, 12], [20, 35]]")
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def size_of(picture: str) -> tuple[int, int]:
    with Image.open(picture) as opened:
        return opened.size


def refused(command: Command, folder: Path, *arguments: object) -> str:
    """The complaint: one line, exit code 2, and every file as it was."""
    before = contents(folder)
    ran = command(*arguments)
    assert ran.code == 2, ran
    assert ran.out == ""
    assert ran.err.startswith("dhpf: error: ")
    assert ran.err.count("\n") == 1
    assert ran.err.endswith("\n")
    assert contents(folder) == before
    return ran.err


def test_all_outputs(command: Command, folder: Path) -> None:
    given = ["--points", "points.json", "--size", "64", "--model", "hpf-resnet50"]
    outputs = ["--out", "m.png", "--json", "m.json", "--flow", "m.npz", "--warp", "w.jpg"]
    ran = command("match", "a.png", "b.png", *given, *outputs)
    assert ran == Ran(0, ran.out, "")
    assert ran.out.splitlines()[1:] == ["wrote m.png", "wrote w.jpg", "wrote m.npz", "wrote m.json"]
    found = json.loads(Path("m.json").read_text())
    assert found["source_points"] == [[10, 10], [50, 12], [20, 35]]
    assert np.array(found["target_points"]).shape == (3, 2)
    assert len(found["confidence"]) == 3
    assert found["layers"] == [2, 7, 11, 12, 15]
    assert found["model"] == "hpf-resnet50"
    assert (found["source_size"], found["target_size"], found["input_size"]) == ([60, 40], [60, 40], [64, 64])
    with np.load("m.npz") as dense:
        flow, confidence = dense["flow"], dense["confidence"]
    assert (flow.shape, confidence.shape) == ((40, 60, 2), (40, 60))
    moved = np.array([10, 10]) + flow[10, 10]
    np.testing.assert_allclose(moved, found["target_points"][0], atol=1e-3)
    assert size_of("w.jpg") == (60, 40)
    assert size_of("m.png")[0] == 2 * 720 + 12  # both photos 480 high, and a gap
    names = ["a.png", "b.png", "m.json", "m.npz", "m.png", "points.json", "w.jpg"]
    assert sorted(contents(folder)) == names


def test_without_any_output_named_a_picture_is_drawn(command: Command, folder: Path) -> None:
    assert command("match", "--sample", "cats", "--size", "64x48").code == 0
    assert size_of("match.png")[1] > 480


def test_written_points_can_be_read_again(command: Command, folder: Path) -> None:
    command("match", "a.png", "b.png", "--size", "64", "--json", "first.json")
    command("match", "a.png", "b.png", "--size", "64", "--points", "first.json", "--json", "second.json")
    assert Path("second.json").read_text() == Path("first.json").read_text()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("place", [0, 1])
def test_bad_photos(command: Command, folder: Path, name: str, place: int) -> None:
    content, complaint = FILES[name]
    Path(name).write_bytes(content)
    pair = ["a.png", "b.png"]
    pair[place] = name
    said = refused(command, folder, "match", *pair, "--json", "m.json")
    assert name in said
    assert complaint in said


POINTS = {
    "nan.json": "[[NaN, 3]]",
    "outside.json": "[[61, 3]]",
    "outside.csv": "x,y\n10,10\n10,41\n",
    "negative.csv": "-1,3\n",
    "malformed.json": "[[1, 2, 3]]",
    "cut.json": "[[1, 2",
    "text.csv": "left eye,right eye\n",
    "empty.csv": "",
}


@pytest.mark.parametrize("output", ["--json=m.json", "--out=m.png", "--flow=m.npz", "--warp=m.png"])
@pytest.mark.parametrize("name", POINTS)
def test_bad_points(command: Command, folder: Path, name: str, output: str) -> None:
    Path(name).write_text(POINTS[name])
    complaint = refused(command, folder, "match", "a.png", "b.png", "--points", name, output)
    assert name in complaint or "lies outside the source photo of 60 x 40 pixels" in complaint


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("--out missing/m.png", "there is no folder missing; create it first"),
        ("--out a.png/m.png", "there is no folder a.png"),
        ("--out folder.png", "folder.png: it is a folder"),
        ("--json /proc/m.json", "cannot write /proc/m.json"),
        ("--json /dev/full", "a device or a pipe"),
        ("--json /dev/null", "a device or a pipe"),
        ("--out m.txt", "must end in .png, .jpg"),
        ("--flow m.npy", "must end in .npz"),
        ("--out m.png --warp m.png", "two outputs have the same name"),
        ("--out m.png --warp ./m.png", "two outputs have the same name"),
        ("--out a.png", "a.png is an input"),
        ("--json points.json --points points.json", "points.json is an input"),
        ("--points none.json", "no such points file: none.json"),
        ("--size large", "size 'large': wanted one number or WIDTHxHEIGHT"),
        ("--size 240x", "size '240x'"),
        ("--size 1x2x3", "size '1x2x3'"),
        ("--size 2000", "from 32 to 1024 pixels"),
        ("--size -5", "from 32 to 1024 pixels"),
        ("--device cuda:99", "no device 'cuda:99'"),
        ("--device gpu", "unknown device 'gpu'"),
        ("--model hpf-resnet51", "did you mean 'hpf-resnet50'?"),
        ("--model none.safetensors", "no such model file: none.safetensors"),
        ("--model points.json", "is not a safetensors file"),
        ("--backbone none.pth", "no such weights file: none.pth"),
        ("--backbone points.json", "points.json is not a weights file"),
        ("--sample cats", "give two photos or --sample, not both"),
        ("--nonsense", "No such option: --nonsense"),
        ("more", "unexpected extra argument"),
    ],
)
def test_bad_options(command: Command, folder: Path, options: str, complaint: str) -> None:
    Path("folder.png").mkdir()
    assert complaint in refused(command, folder, "match", "a.png", "b.png", *options.split())


def test_bad_commands(command: Command, folder: Path) -> None:
    assert "give two photos" in refused(command, folder, "match", "a.png")
    assert "known are cheetahs, cats, big-cats" in refused(command, folder, "match", "--sample", "dogs")
    assert "Did you mean" in refused(command, folder, "mach", "a.png", "b.png")
    assert "no such list of pairs" in refused(command, folder, "match-many", "none.csv", "--out", "m")
    assert "Missing option '--out'" in refused(command, folder, "match-many", ".")
    assert "a.png: File exists" in refused(command, folder, "match-many", ".", "--out", "a.png")


def test_a_warp_without_enough_points_writes_nothing(command: Command, folder: Path) -> None:
    Path("two.json").write_text("[[1, 2], [30, 20]]")
    options = ["--points", "two.json", "--size", "64", "--json", "m.json", "--warp", "w.png"]
    assert "a warp needs at least 3 points" in refused(command, folder, "match", "a.png", "b.png", *options)


def test_models_of_another_architecture(command: Command, folder: Path) -> None:
    bundled = ASSETS / BACKBONES["resnet50-msra"].source
    assert "is not a dhpf head" in refused(command, folder, "match", "a.png", "b.png", "--model", bundled)
    save_file(
        published(50), "odd.safetensors", {"format": "dhpf-head", "version": "1", "backbone": "resnet50-msra"}
    )
    complaint = refused(command, folder, "match", "a.png", "b.png", "--model", "odd.safetensors")
    assert "odd.safetensors does not fit resnet50-msra" in complaint


def test_import_checkpoint(command: Command, folder: Path) -> None:
    import torch

    torch.save(published(50), "in.pt")
    assert "no such weights file" in refused(command, folder, "import-checkpoint", "none.pt", "o.safetensors")
    assert "must end in" in refused(command, folder, "import-checkpoint", "in.pt", "o.pt")
    assert "did you mean" in refused(
        command, folder, "import-checkpoint", "in.pt", "o.safetensors", "--backbone", "vgg"
    )
    ran = command("import-checkpoint", "in.pt", "o.safetensors", "--backbone", "resnet50-msra")
    assert (ran.code, ran.err) == (0, "")
    assert "dhpf match A B --model o.safetensors" in ran.out
    assert (
        command(
            "match", "a.png", "b.png", "--model", "o.safetensors", "--size", "64", "--json", "m.json"
        ).code
        == 0
    )
    found = json.loads(Path("m.json").read_text())
    assert found["model"] == "o.safetensors"
    assert len(found["layer_probability"]) == 17


def test_match_many(command: Command, folder: Path) -> None:
    Path("bad.png").write_bytes(b"no photo")
    ran = command("match-many", ".", "--out", "m", "--size", "64")
    assert ran.code == 1
    assert (
        ran.out == "1 pairs matched, 0 kept from before, 2 failed, 1 files that are not photos ignored: m\n"
    )
    assert ran.err.count("dhpf: failed: pair") == 2
    Path("bad.png").unlink()
    assert "other settings (pairs)" in refused(
        command, folder, "match-many", ".", "--out", "m", "--size", "64"
    )


def test_models_lists_everything(command: Command) -> None:
    ran = command("models")
    assert ran.code == 0
    for model in MODELS.values():
        weights = BACKBONES[model.backbone]
        for part in (model.name, weights.origin, weights.licence, *map(str, model.figures.values())):
            assert part in ran.out


@pytest.mark.parametrize("of", ["", "match", "match-many", "import-checkpoint"])
def test_help_has_examples(command: Command, of: str) -> None:
    ran = command(*of.split(), "--help")
    assert ran.code == 0
    assert f"dhpf {of or 'match'} " in ran.out.split("Usage")[1].split("\n", 2)[2]


def test_version(command: Command) -> None:
    assert command("--version").out == f"dhpf {dhpf.__version__}\n"


def test_a_full_disc_leaves_nothing(folder: Path) -> None:
    """A real limit on the size of files, in a real process: every file fails when it is half written."""
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000));"
        "sys.dont_write_bytecode = True; from dhpf.cli import main; main()"
    )
    before = contents(folder)
    options = ["match", "a.png", "b.png", "--size", "64", "--json", "m.json", "--out", "m.png"]
    ended = subprocess.run([sys.executable, "-c", limited, *options], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "dhpf: error: cannot write m.png: File too large\n"
    assert contents(folder) == before


def test_names_that_are_no_text_and_a_closed_pipe(folder: Path) -> None:
    odd = folder / "photo\udcff.png"
    odd.write_bytes(Path("a.png").read_bytes())
    program = [sys.executable, "-m", "dhpf"]
    options = ["match", odd, "b.png", "--size", "64", "--json", "m.json"]
    ended = subprocess.run([*program, *options], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "photo\\udcff.png" in ended.stdout
    with subprocess.Popen([*program, "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stderr
        process.stdout.close()  # as `head` does
        assert b"Traceback" not in process.stderr.read()
