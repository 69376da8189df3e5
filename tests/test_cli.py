"""The command line: what it writes, and its one line for everything that is given wrongly."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import typer
from PIL import Image
from safetensors.torch import save_file

import dhpf
from dhpf import cli
from dhpf.backbones.weights import ASSETS, BACKBONES
from dhpf.outputs import Outputs
from dhpf.train.report import Reporter
from dhpf.zoo import models
from tests.conftest import Ran, texture
from tests.test_bad_images import FILES
from tests.test_heads import published

Command = Callable[..., Ran]

SMALL = ("--model", "hpf-resnet50", "--size", "64")  # of programs of their own: quick, and without notes


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
        ("--json loop.json", "a circle of links"),
        ("--points loop.json", "loop.json cannot be read: Too many levels of symbolic links"),
        ("--points /dev/zero", "/dev/zero is a device or a pipe; wanted a points file"),
        ("--out m.txt", "must end in .png, .jpg"),
        ("--flow m.npy", "must end in .npz"),
        ("--out m.png --warp m.png", "two outputs have the same name"),
        ("--out m.png --warp ./m.png", "two outputs have the same name"),
        ("--out a.png", "a.png is an input"),
        ("--warp soft.png", "soft.png is an input"),
        ("--out hard.png", "hard.png is an input"),
        ("--out - --json m.json", "must end in .png, .jpg"),
        ("--json points.json --points points.json", "points.json is an input"),
        ("--points none.json", "no such points file: none.json"),
        ("--size=", "--size is empty"),
        ("--model=", "--model is empty; give a value, or leave it out for the default"),
        ("--model banana", "unknown model 'banana'; known: dinov2-small,"),
        ("--style= --out m.png", "unknown style ''; known: lines"),
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
    Path("loop.json").symlink_to("loop.json")
    Path("soft.png").symlink_to("a.png")
    Path("hard.png").hardlink_to("b.png")
    assert complaint in refused(command, folder, "match", "a.png", "b.png", *options.split())


def test_bad_commands(command: Command, folder: Path) -> None:
    assert "give two photos" in refused(command, folder, "match", "a.png")
    assert "known are cheetahs, birds, cattle, cats, big-cats" in refused(
        command, folder, "match", "--sample", "dogs"
    )
    assert "Did you mean" in refused(command, folder, "mach", "a.png", "b.png")
    assert "no such list of pairs" in refused(command, folder, "match-many", "none.csv", "--out", "m")
    assert "Missing option '--out'" in refused(command, folder, "match-many", ".")
    assert "a.png: File exists" in refused(command, folder, "match-many", ".", "--out", "a.png")


def test_a_warp_without_enough_points_writes_nothing(command: Command, folder: Path) -> None:
    Path("two.json").write_text("[[1, 2], [30, 20]]")
    options = ["--points", "two.json", "--size", "64", "--json", "m.json", "--warp", "w.png"]
    assert "a warp needs at least 3 points" in refused(command, folder, "match", "a.png", "b.png", *options)


def test_endings_in_capitals(command: Command, folder: Path) -> None:
    given = ["--size", "64", "--model", "hpf-resnet50", "--points", "points.json"]
    outputs = ["--flow", "M.NPZ", "--json", "M.JSON", "--warp", "W.JPG"]
    assert command("match", "a.png", "b.png", *given, *outputs).code == 0
    assert sorted(contents(folder)) == ["M.JSON", "M.NPZ", "W.JPG", "a.png", "b.png", "points.json"]
    with np.load("M.NPZ") as dense:
        assert dense["flow"].shape == (40, 60, 2)


def test_json_to_standard_output(command: Command, folder: Path) -> None:
    """Nothing else is there, so that it can go to another program."""
    given = ["match", "a.png", "b.png", "--size", "64", "--model", "hpf-resnet50"]
    ran = command(*given, "--json", "-", "--flow", "m.npz")
    assert command(*given, "--json", "m.json").code == 0
    assert ran.code == 0
    assert ran.out == Path("m.json").read_text()
    assert ran.err.splitlines()[1:] == ["wrote m.npz"]
    assert not Path("-").exists()


def test_models_of_another_architecture(command: Command, folder: Path) -> None:
    bundled = ASSETS / BACKBONES["resnet50-msra"].source
    assert "is not a dhpf head" in refused(command, folder, "match", "a.png", "b.png", "--model", bundled)
    head = {
        "format": "dhpf-head",
        "version": "2",
        "method": "dhpf",
        "backbone": "resnet50-msra",
        "config": "{}",
    }
    save_file(published(50), "odd.safetensors", head)
    complaint = refused(command, folder, "match", "a.png", "b.png", "--model", "odd.safetensors")
    assert "odd.safetensors does not fit resnet50-msra" in complaint


def test_import_checkpoint(command: Command, folder: Path) -> None:
    import torch

    torch.save(published(50), "in.pt")
    assert "no such weights file" in refused(command, folder, "import-checkpoint", "none.pt", "o.safetensors")
    assert "must end in" in refused(command, folder, "import-checkpoint", "in.pt", "o.pt")
    assert "did you mean 'resnet101'?" in refused(
        command, folder, "import-checkpoint", "in.pt", "o.safetensors", "--backbone", "resnet110"
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
    complaint = refused(command, folder, "match-many", ".", "--out", "m", "--size", "64")
    assert "holds a run with other settings (pairs)" in complaint


def test_models_lists_everything(command: Command) -> None:
    listed = command("models")
    assert listed.code == 0
    for card in models().values():
        assert card.name in listed.out and card.summary in listed.out
        about, weights = command("models", card.name), BACKBONES[card.backbone]
        assert about.code == 0
        for part in (card.summary, weights.origin, weights.licence):
            assert part in about.out


@pytest.mark.parametrize("of", ["", "match", "match-many", "import-checkpoint"])
def test_help_has_examples(command: Command, of: str) -> None:
    ran = command(*of.split(), "--help")
    assert ran.code == 0
    assert f"dhpf {of or 'match'} " in ran.out.split("Usage")[1].split("\n", 2)[2]


def test_version(command: Command) -> None:
    assert command("--version").out == f"dhpf {dhpf.__version__}\n"


def test_groups_alone_show_their_help(command: Command) -> None:
    for group in ([], ["data"]):
        assert command(*group) == command(*group, "--help")
        assert command(*group).code == 0


PROGRAM = "from dhpf.cli import main; main()"


def run_program(*arguments: str, before: str = "", **options: Any) -> subprocess.CompletedProcess[str]:
    """A real process, in which some lines may run before the program."""
    command = [sys.executable, "-c", f"{before}\n{PROGRAM}", *arguments]
    return subprocess.run(command, text=True, timeout=300, **{"capture_output": True, **options})


@pytest.mark.parametrize(
    ("missing", "arguments", "cure"),
    [
        ("starlette", ["web"], "pip install 'dhpf[web]'"),
        ("matplotlib", ["analyse", "p.npz"], "pip install 'dhpf[plots]'"),
    ],
)
def test_square_brackets_in_errors(missing: str, arguments: list[str], cure: str) -> None:
    ended = run_program(*arguments, before=f"import sys; sys.modules['{missing}'] = None")
    assert ended.returncode == 2
    assert cure in ended.stderr


def test_square_brackets_in_notes_of_a_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with Reporter(tmp_path, steps_done=0, first=True):
        pass
    assert "pip install 'dhpf[train]'" in capfd.readouterr().err


def test_square_brackets_in_help(command: Command) -> None:
    """All commands: every word of every option's help is shown as it was written."""
    tree = typer.main.get_command(cli.app)
    assert isinstance(tree, typer.core.TyperGroup)
    for name, part in tree.commands.items():
        if isinstance(part, typer.core.TyperCommand):
            shown = "".join(command(name, "--help").out.split())
            for text in [part.help, *(getattr(option, "help", "") for option in part.params)]:
                assert "".join((text or "").split()) in shown
    assert "[PREDICTIONS.npz]" in command("analyse", "--help").out


def test_a_full_disc_leaves_nothing(folder: Path) -> None:
    """A real limit on the size of files, in a real process: every file fails when it is half written."""
    before = contents(folder)
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))"
    quiet = "import sys; sys.dont_write_bytecode = True"
    options = ["match", "a.png", "b.png", *SMALL, "--json", "m.json", "--out", "m.png"]
    ended = run_program(*options, before=f"{limit}; {quiet}")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "dhpf: error: cannot write m.png: File too large\n"
    assert contents(folder) == before


def test_out_of_memory(folder: Path) -> None:
    """A real limit, once the model is loaded: what torch computes does not fit."""
    limit = """
import resource, dhpf.matcher
load = dhpf.matcher.load
def load_and_limit(*arguments, **options):
    loaded = load(*arguments, **options)
    size = next(line for line in open("/proc/self/status") if line.startswith("VmSize")).split()[1]
    resource.setrlimit(resource.RLIMIT_AS, (int(size) * 1024 + 50 * 2**20,) * 2)
    return loaded
dhpf.matcher.load = load_and_limit
"""
    before = contents(folder)
    ended = run_program(
        *("match", "a.png", "b.png", "--model", "hpf-resnet50", "--size", "1024", "--json", "m.json"),
        before=limit,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("dhpf: error: out of memory; ")
    assert ended.stderr.count("\n") == 1
    assert contents(folder) == before


def test_errors_of_python_that_are_no_fault_of_the_user(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug is shown as one, with its traceback; only a lack of memory is not one."""

    def broken(error: Exception) -> Callable[..., None]:
        def draw(*_: object, **__: object) -> None:
            raise error

        return draw

    given = ["match", "a.png", "b.png", "--size", "64", "--out", "m.png"]
    for bug in (ValueError("a bug"), RuntimeError("a bug")):
        monkeypatch.setattr(dhpf.Match, "draw", broken(bug))
        with pytest.raises(type(bug), match="a bug"):
            command(*given)
    monkeypatch.setattr(dhpf.Match, "draw", broken(MemoryError()))
    assert "out of memory" in refused(command, folder, *given)


def test_interrupted_and_terminated(folder: Path) -> None:
    """In the middle of writing: what was begun is removed."""
    slow = """
import os, signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # tests may run where it is ignored
def fsync(_):
    print("writing", flush=True)
    time.sleep(60)
os.fsync = fsync
"""
    before = contents(folder)
    options = ["match", "a.png", "b.png", *SMALL, "--json", "m.json", "--flow", "m.npz"]
    for number, code, said in (
        (signal.SIGINT, 130, "dhpf: error: interrupted\n"),
        (signal.SIGTERM, 143, ""),
    ):
        command = [sys.executable, "-c", f"{slow}\n{PROGRAM}", *options]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
            assert process.stdout and process.stdout.readline() == "writing\n"
            assert len(contents(folder)) == len(before) + 1
            process.send_signal(number)
            _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (code, said)
        assert contents(folder) == before


def test_names_that_are_no_text(folder: Path) -> None:
    odd = folder / "photo\udcff.png"
    odd.write_bytes(Path("a.png").read_bytes())
    ended = run_program("match", str(odd), "b.png", *SMALL, "--json", "m.json")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "photo\\udcff.png" in ended.stdout


def closed_by_its_reader() -> int:
    reader, writer = os.pipe()
    os.close(reader)  # as `head` does
    return writer


@pytest.mark.parametrize(
    ("stdout", "complaint"),
    [
        (closed_by_its_reader, "cannot write to standard output"),
        (lambda: os.open("/dev/full", os.O_WRONLY), "No space left on device"),
    ],
)
@pytest.mark.parametrize("arguments", ["models", "--help", f"match a.png b.png {' '.join(SMALL)} --json -"])
def test_standard_output_that_fails(
    folder: Path, arguments: str, stdout: Callable[[], int], complaint: str
) -> None:
    writer = stdout()
    ended = run_program(*arguments.split(), capture_output=False, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert ended.returncode == 2
    assert complaint in ended.stderr
    assert ended.stderr.count("dhpf: error: ") == 1
    assert "Traceback" not in ended.stderr


def test_closed_streams(folder: Path) -> None:
    """The shell's >&- and 2>&-."""
    program = f'"{sys.executable}" -m dhpf'
    shell = {"shell": True, "capture_output": True, "text": True}
    ended = subprocess.run(f"{program} models >&-", **shell)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "dhpf: error: standard output is closed; give it a file, or /dev/null\n"
    ended = subprocess.run(f"{program} match none.png b.png 2>&-", **shell)
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", "")
    ended = subprocess.run(f"{program} --version 2>&-", **shell)
    assert (ended.returncode, ended.stdout) == (0, f"dhpf {dhpf.__version__}\n")


def test_pictures_that_a_format_cannot_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Said by name; whatever else an encoder says is a bug, and goes on as it is."""
    wide = SimpleNamespace(
        to_dict=lambda points, least: {}, warp=lambda points: Image.new("RGB", (16384, 8)), model="m"
    )
    for name, complaint in (
        ("w.webp", "16384 x 8 pixels, WEBP has at most 16383 a side; use .png"),
        ("w.png", None),
        ("w.jpg", None),
    ):
        outputs = Outputs(warp=Path(name))
        if complaint is None:
            with Image.open(BytesIO(outputs.render(wide, None)[Path(name)])) as opened:
                assert opened.size == (16384, 8)
        else:
            with pytest.raises(dhpf.InputError, match=complaint):
                outputs.render(wide, None)

    def broken(*_: object) -> None:
        raise ValueError("a bug in an encoder")

    monkeypatch.setattr(Image.Image, "save", broken)
    with pytest.raises(ValueError, match="a bug in an encoder") as raised:
        Outputs(warp=Path("w.png")).render(wide, None)
    assert not isinstance(raised.value, dhpf.InputError)


def test_json_never_holds_nan() -> None:
    found = SimpleNamespace(to_dict=lambda points, least: {"confidence": [float("nan")]}, model="odd")
    with pytest.raises(dhpf.InputError, match=r"odd found NaN or infinity"):
        Outputs(json=Path("m.json")).render(found, None)
