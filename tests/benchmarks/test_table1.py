"""Table 1: its figures are those of the files; models side by side find what each finds alone."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks.evaluate import RESULTS
from benchmarks.table1 import DATASETS, SharedBackbone, unfinished
from benchmarks.table1_page import write_tables

from dhpf import Matcher
from dhpf.data import make_mini, open_dataset
from dhpf.evaluate.predict import predict, predict_side_by_side
from dhpf.evaluate.predictions import Predictions
from dhpf.methods.hpf import HPF, HPFConfig
from dhpf.methods.nearest import Nearest
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


def test_side_by_side_is_as_alone(tmp_path: Path) -> None:
    make_mini("pf-pascal", tmp_path / "mini")
    dataset = open_dataset("pf-pascal", tmp_path / "mini", "test")
    seen = []

    class Counted(TwoConvolutions):
        def forward(self, images, layers=None):  # type: ignore[no-untyped-def]
            seen.append(len(images))
            return super().forward(images, layers)

    shared = SharedBackbone(Counted(), (0, 1))
    together = {
        tmp_path / "nearest.npz": Matcher(Nearest(shared), "nearest", size=64),
        tmp_path / "hpf.npz": Matcher(HPF(shared, HPFConfig(layers=(0, 1))), "hpf", size=64),
    }
    found = predict_side_by_side(together, dataset, workers=2)
    images = {path for entry in dataset.entries for path in (entry.source, entry.target)}
    assert len(seen) == len(images)
    alone = {
        "nearest": Nearest(TwoConvolutions()),
        "hpf": HPF(TwoConvolutions(), HPFConfig(layers=(0, 1))),
    }
    for done, (name, method) in zip(found, alone.items(), strict=True):
        wanted = predict(Matcher(method, name, size=64), dataset, tmp_path / "alone.npz").predictions
        assert wanted is not None and done.predictions is not None
        np.testing.assert_array_equal(done.predictions.predicted_points, wanted.predicted_points)
        kept = Predictions.load(tmp_path / f"{name}.npz")
        assert (kept.model, len(kept), done.computed) == (name, len(dataset), len(dataset))
