from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from dhpf.cli.score import score
from dhpf.errors import InputError
from dhpf.evaluate.predictions import PairPrediction, Predictions

MakePair = Callable[..., PairPrediction]
Make = Callable[..., Predictions]


def run(*arguments: str | Path) -> Result:
    app = typer.Typer()
    app.command()(score)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def file(make_pair: MakePair, make_predictions: Make, tmp_path: Path) -> Path:
    """One point at 24 of 240 px: right at 0.1 with <=, wrong with <."""
    pair = make_pair(target_points=[(30, 40)], predicted_points=[(60, 40)])
    return make_predictions(pair, model="half").save(tmp_path / "p.npz")


def test_all_outputs_at_once(file: Path) -> None:
    outputs = {kind: file.with_name(f"out.{kind}") for kind in ("json", "csv", "markdown", "html")}
    result = run(file, *[part for kind, path in outputs.items() for part in (f"--{kind}", path)])
    assert result.exit_code == 0, result.output
    assert (
        "half on pf-pascal, test" in result.output and "pck[threshold=image frame=square240" in result.output
    )
    assert json.loads(outputs["json"].read_text())["pck"] == {"0.05": 0, "0.1": 100, "0.15": 100}
    assert all("half" in path.read_text() for path in outputs.values())
    said = [line for line in result.output.splitlines() if line.startswith("wrote ")]
    assert said == [f"wrote {path}" for path in outputs.values()]


def test_json_on_standard_output_stands_there_alone(file: Path) -> None:
    result = run(file, "--json", "-", "--csv", file.with_name("out.csv"))
    assert json.loads(result.stdout)["model"] == "half"
    assert "wrote" in result.stderr and not Path("-").exists()


@pytest.mark.parametrize("option", ["--json", "--csv", "--markdown", "--html"])
def test_no_output_replaces_an_input_or_another_output(option: str, file: Path) -> None:
    names, same, link = (file.with_name(name) for name in ("names.txt", "same.npz", "link.npz"))
    names.write_text("one_a.jpg\n")
    same.hardlink_to(file)
    link.symlink_to(file)
    before = file.read_bytes()
    other = "--csv" if option != "--csv" else "--html"
    for arguments in (
        [option, file],
        [option, same],
        [option, link],
        ["--train-list", names, option, names],
        [option, file.with_name("x"), other, file.parent / "." / "x"],
    ):
        result = run(file, *arguments)
        assert isinstance(result.exception, InputError), arguments
        said = str(result.exception)
        assert re.search("is an input|two outputs have the same name", said) and result.output == ""
    assert file.read_bytes() == before and names.read_text() == "one_a.jpg\n"
    assert sorted(path.name for path in file.parent.iterdir()) == [
        *("link.npz", "names.txt", "p.npz", "same.npz")
    ]


def test_no_output_replaces_a_file_of_the_data_set(file: Path) -> None:
    root = file.parent / "data"
    image = root / "JPEGImages" / Predictions.load(file).source_images[0]
    image.parent.mkdir(parents=True)
    image.write_text("precious")
    (file.parent / "link.csv").symlink_to(image)
    for out in (image, file.parent / "link.csv"):
        result = run(file, "--csv", out, "--root", root)
        assert isinstance(result.exception, InputError) and "is an input" in str(result.exception)
    assert image.read_text() == "precious"
    for _ in range(2):  # what it wrote there, it may replace
        assert run(file, "--csv", root / "new.csv", "--root", root).exit_code == 0


def test_alphas_protocol_and_changes_reach_the_score(file: Path) -> None:
    out = file.with_suffix(".json")
    run(file, "--alpha", "0.1", "--alpha", "0.2", "--set", "compare=<", "--json", out)
    found = json.loads(out.read_text())
    assert found["pck"] == {"0.1": 0, "0.2": 100} and found["protocol"]["name"] == "custom"
    run(file, "--protocol", "per-point", "--json", out)
    assert json.loads(out.read_text())["protocol"]["average"] == "point"


def test_a_training_list_can_be_given(file: Path) -> None:
    names = file.with_name("names.txt")
    names.write_text("one_a.jpg\n")
    assert "Leak-free pairs: 0 of 1" in run(file, "--train-list", names).output


def test_errors_come_before_any_output(file: Path) -> None:
    for arguments in (["--json", "none/out.json"], ["--protocol", "dhfp"], ["--alpha", "0"]):
        result = run(file, *arguments)
        assert isinstance(result.exception, InputError) and result.stdout == ""
    assert isinstance(run(file.with_name("none.npz")).exception, InputError)


def test_scoring_needs_no_torch(file: Path) -> None:
    program = (
        "import sys; sys.modules['torch'] = None; import typer; from dhpf.cli.score import score; "
        "app = typer.Typer(); app.command()(score); app()"
    )
    report = file.with_suffix(".html")
    done = subprocess.run(
        [sys.executable, "-c", program, str(file), "--html", str(report)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert report.exists() and "PCK@0.1" in done.stdout
