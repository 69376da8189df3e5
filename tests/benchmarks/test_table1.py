"""Table 1: its figures are those of the files; models side by side find what each finds alone."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from benchmarks import held_out, leak, table1
from benchmarks.evaluate import RESULTS
from benchmarks.figure6 import figure
from benchmarks.record import ROOT, run
from benchmarks.table1 import DATASETS, SharedBackbone, unfinished
from benchmarks.table1_page import write_tables
from PIL import Image, ImageOps

from dhpf import Matcher
from dhpf.backbones.base import Backbone
from dhpf.data import make_mini, open_dataset
from dhpf.data.pairs import Pair, PairDataset
from dhpf.evaluate.predict import predict, predict_side_by_side
from dhpf.evaluate.predictions import Predictions
from dhpf.images import read_image
from dhpf.methods.hpf import HPF, HPFConfig
from dhpf.methods.nearest import Nearest
from dhpf.samples import sample_pair
from tests.test_own_backbone_and_method import TwoConvolutions

MODEL = "proposal-flow"


def write(folder: Path, name: str, result: object) -> None:
    (folder / f"{name}.json").write_text(json.dumps({"result": result}))


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Of one model on two data sets."""
    pck = {"0.05": 1.23, "0.1": 4.56, "0.15": 7.89}
    write(tmp_path, f"pf-pascal_{MODEL}", {"pck": pck, "leak_free": {"pairs": 3, "pck": {"0.1": 11.11}}})
    write(tmp_path, f"pf-pascal_{MODEL}_box", {"pck": {"0.1": 22.22}})
    write(tmp_path, f"pf-pascal_{MODEL}_original", {})
    write(tmp_path, f"caltech-101_{MODEL}", {"masks": {"LT-ACC": 33.33, "IoU": 44.44}})
    write(tmp_path, "model_times", {MODEL: {"new_photos": 0.5678}})
    return tmp_path


def test_figures_are_those_of_the_files(results: Path) -> None:
    write_tables(results)
    rows = list(csv.DictReader((results / "table1.csv").read_text().splitlines()))
    [own] = [row for row in rows if row["Model"] == MODEL]
    expected = "PF (HOG, LOM)", MODEL, "none", "none", "1.2", "4.6", "7.9", "22.2", "11.1"
    assert tuple(own.values()) == (*expected, *[""] * 6, "33.3", "44.4", "568")
    theirs = [row for row in rows if row["Model"] == "literature"]
    assert len(theirs) == len(rows) - 1 == 17
    [scnet] = [row for row in theirs if row["System"] == "SCNet"]
    figures = ["36.2", "72.2", "82.0", "48.2", "", "38.6", "70.4", "85.3", "", "", "", "79", "51", ">1000"]
    assert [*scnet.values()][4:] == figures
    [dhpf] = [row for row in theirs if (row["System"], row["Backbone"]) == ("DHPF", "ResNet-101")]
    assert (dhpf["PF-WILLOW, 0.1"], dhpf["PF-WILLOW, padded, 0.1"]) == ("", "77.6")
    [rtns] = [row for row in theirs if row["System"] == "RTNs"]
    assert (rtns["PF-PASCAL, box, 0.1"], rtns["Caltech-101, IoU"], rtns["ms for a pair"]) == ("", "", "376")
    text = (results / "table1.md").read_text()
    assert f"| PF (HOG, LOM) | `{MODEL}` | none | none | 1.2 | 4.6 |" in text
    assert "| PF (HOG, LOM) | *literature* | HOG |" in text
    html = (results / "table1.html").read_text()
    assert html.count("<tr") == 1 + len(rows)
    assert "<td>33.3</td><td>44.4</td><td>568</td>" in html and "&gt;1000" in html


def test_what_has_results_is_not_computed_again(results: Path) -> None:
    assert {one.dataset for one in RESULTS} >= {*DATASETS}
    assert unfinished([MODEL], results) == {"pf-pascal": [], "pf-willow": [MODEL], "caltech-101": []}
    (results / f"pf-pascal_{MODEL}_box.json").unlink()
    assert unfinished([MODEL], results)["pf-pascal"] == [MODEL]


@pytest.fixture
def pairs(tmp_path: Path) -> PairDataset:
    """Nine drawn ones."""
    make_mini("pf-pascal", tmp_path / "mini")
    return open_dataset("pf-pascal", tmp_path / "mini", "test")


def two_models(folder: Path, backbone: Backbone) -> dict[Path, Matcher]:
    """On one backbone, with the file that each predicts into."""
    shared = SharedBackbone(backbone, (0, 1))
    return {
        folder / "nearest.npz": Matcher(Nearest(shared), "nearest", size=64),
        folder / "hpf.npz": Matcher(HPF(shared, HPFConfig(layers=(0, 1))), "hpf", size=64),
    }


def test_a_head_that_changes_its_backbone_has_it_alone() -> None:
    names = ["nearest-dinov2-small", "dinov2-small", "sfnet-dinov2-small"]
    groups = table1.on_shared_backbones(names)
    assert sorted(sorted(group) for group in groups) == [
        ["dinov2-small"],
        sorted({*names} - {"dinov2-small"}),
    ]


def test_side_by_side_is_as_alone(pairs: PairDataset, tmp_path: Path) -> None:
    seen = []

    class Counted(TwoConvolutions):
        def forward(self, images, layers=None):  # type: ignore[no-untyped-def]
            seen.append(len(images))
            return super().forward(images, layers)

    found = predict_side_by_side(two_models(tmp_path, Counted()), pairs, workers=2)
    images = {path for entry in pairs.entries for path in (entry.source, entry.target)}
    assert len(seen) == len(images)
    alone = {
        "nearest": Nearest(TwoConvolutions()),
        "hpf": HPF(TwoConvolutions(), HPFConfig(layers=(0, 1))),
    }
    for done, (name, method) in zip(found, alone.items(), strict=True):
        wanted = predict(Matcher(method, name, size=64), pairs, tmp_path / "alone.npz").predictions
        assert wanted is not None and done.predictions is not None
        np.testing.assert_array_equal(done.predictions.predicted_points, wanted.predicted_points)
        kept = Predictions.load(tmp_path / f"{name}.npz")
        assert (kept.model, len(kept), done.computed) == (name, len(pairs), len(pairs))


def undisturbed(pairs: PairDataset, folder: Path) -> dict[str, bytes]:
    """Both models' files of a run from beginning to end."""
    folder.mkdir()
    predict_side_by_side(two_models(folder, TwoConvolutions()), pairs)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_run_that_was_stopped_resumes_with_both_models(
    pairs: PairDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while the fifth pair is read; and the last line of one model's part was not written any more."""
    out = tmp_path / "out"
    out.mkdir()
    read, real = [], type(pairs).__getitem__

    def stopped(self: PairDataset, index: int) -> Pair:
        read.append(index)
        if len(set(read)) == 5:
            raise KeyboardInterrupt
        return real(self, index)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(type(pairs), "__getitem__", stopped)
        predict_side_by_side(two_models(out, TwoConvolutions()), pairs, workers=1)
    assert sorted(path.name for path in out.iterdir()) == ["hpf.npz.part-0", "nearest.npz.part-0"]
    part = out / "hpf.npz.part-0"
    lines = part.read_bytes().splitlines(keepends=True)
    assert len(lines) == 1 + 4
    part.write_bytes(b"".join(lines[:-1]))
    nearest, hpf = predict_side_by_side(two_models(out, TwoConvolutions()), pairs)
    assert (nearest.kept, nearest.computed, hpf.kept, hpf.computed) == (4, 5, 3, 6)
    found = {path.name: path.read_bytes() for path in out.iterdir()}
    assert found == undisturbed(pairs, tmp_path / "whole")


IN_PROCESS = """
import sys
from pathlib import Path
from dhpf.data import open_dataset
from dhpf.evaluate.predict import predict_side_by_side
from tests.benchmarks.test_table1 import TwoConvolutions, two_models
root, out = map(Path, sys.argv[1:])
done = predict_side_by_side(two_models(out, TwoConvolutions()), open_dataset("pf-pascal", root, "test"))
print("computed", *(one.computed for one in done))
"""


def test_two_processes_predict_what_one_does(pairs: PairDataset, tmp_path: Path) -> None:
    out, script = tmp_path / "out", tmp_path / "script.py"
    out.mkdir()
    script.write_text(IN_PROCESS)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    places = [str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    settings = {"PYTHONPATH": os.pathsep.join(places), "TORCH_CPP_LOG_LEVEL": "ERROR", "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        [*launcher, script, pairs.root, out],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert sorted(ended.stdout.splitlines()) == ["computed 4 4", "computed 5 5"]  # of nine pairs
    found = {path.name: path.read_bytes() for path in out.iterdir()}
    assert found == undisturbed(pairs, tmp_path / "whole")


@pytest.mark.parametrize(
    ("program", "given"),
    [(table1.main, ["none"]), (leak.main, ["none", "runs"]), (held_out.main, ["none"])],
    ids=["table1", "leak", "held_out"],
)
def test_a_folder_that_is_not_there_is_one_line(
    program: Callable[[], None],
    given: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["program", *given])
    with pytest.raises(SystemExit) as ended:
        run(program)
    printed = capsys.readouterr()
    assert (ended.value.code, printed.out) == (2, "")
    assert printed.err.startswith("error: ") and "none" in printed.err and printed.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_figure_6_has_a_row_a_pair_and_a_column_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Squares of 200 pixels, drawn twice as large, 12 between them; below them, 12 and a line of 22."""
    lanczos = Image.Resampling.LANCZOS
    matchers = {one.name: one for one in two_models(tmp_path, TwoConvolutions()).values()}
    monkeypatch.setattr("benchmarks.figure6.on_shared_backbones", lambda names: [matchers])
    drawn = figure(["hpf", "nearest"], ["birds", "cattle"])
    assert drawn.size == (4 * 200 + 3 * 12, 2 * (200 + 12 + 22))
    source, target = (read_image(path) for path in sample_pair("cattle"))
    warped = [matchers[name].match(source, target).warp() for name in ("hpf", "nearest")]
    large = [ImageOps.pad(image, (400, 400), lanczos, "white") for image in (source, target, *warped)]
    panels = [np.asarray(image.resize((200, 200), lanczos), float) for image in large]
    for column in range(4):
        shown = np.asarray(drawn.crop((column * 212, 234, column * 212 + 200, 434)), float)
        apart = [np.abs(shown - panel).mean() for panel in panels]
        assert apart[column] < 1 and np.argmin(apart) == column
