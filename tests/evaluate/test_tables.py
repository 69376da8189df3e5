from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable

import numpy as np
import pytest
from rich.console import Console

from dhpf.evaluate.predictions import PairPrediction, Predictions
from dhpf.evaluate.score import Score, score_predictions
from dhpf.evaluate.tables import print_score, remarks, to_csv, to_json, to_markdown

FINGERPRINT = "pck[threshold=image frame=square240 average=image compare=<= direction=source-to-target]"


@pytest.fixture
def score(make_pair: Callable[..., PairPrediction], make_predictions: Callable[..., Predictions]) -> Score:
    """A right cat, and a dog with 1 of 3 points right at 0.05 and 2 of 3 at 0.1 and 0.15."""
    truth = np.array([(30.0, 40.0), (130.0, 40.0), (30.0, 120.0)])
    guess = truth + np.array([(0, 0), (20, 0), (200, 0)])  # 0, 16 and 160 px of 240
    return score_predictions(
        make_predictions(
            make_pair("a"),
            make_pair("b", category="dog|hound", predicted_points=guess, flags={"occlusion": 1}),
            training_images=["a_b.jpg"],
            skipped=[("x", "no common point"), ("y", "no common point"), ("z", "image missing")],
        )
    )


def test_json(score: Score) -> None:
    found = json.loads(to_json(score))
    assert list(found)[:4] == ["dataset", "split", "model", "commit"]
    assert found["protocol"] == {
        "name": "dhpf",
        "threshold": "image",
        "frame": "square240",
        "average": "image",
        "compare": "<=",
        "direction": "source-to-target",
        "fingerprint": FINGERPRINT,
    }
    assert (found["pairs"], found["points"]) == (2, 6)
    assert found["pck"] == {"0.05": 66.6667, "0.1": 83.3333, "0.15": 83.3333}
    assert found["interval"]["0.05"] == [33.3333, 100]
    dog = {
        "pairs": 1,
        "points": 3,
        "pck": {"0.05": 33.3333, "0.1": 66.6667, "0.15": 66.6667},
        "interval": None,
    }
    assert found["per_category"]["dog|hound"] == dog
    assert found["category_mean"] == found["pck"]
    assert found["breakdowns"]["occlusion"]["source"] == dog
    assert found["leak_free"] == {"training_images": 1, **dog}
    assert found["skipped"][2] == {"pair": "z", "reason": "image missing"}


def test_json_of_masks_and_of_an_unknown_training_list(
    make_pair: Callable[..., PairPrediction], make_predictions: Callable[..., Predictions]
) -> None:
    predictions = make_predictions(dataset="caltech-101", kind="polygons")
    found = json.loads(to_json(score_predictions(predictions)))
    assert found["masks"] == {"LT-ACC": 100, "IoU": 100} and "pck" not in found
    assert (found["leak_free"], found["skipped"]) == (None, [])
    assert "threshold" not in found["protocol"]


def test_csv(score: Score) -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(score))))
    assert {row["protocol"] for row in rows} == {FINGERPRINT}
    by_group = {(row["breakdown"], row["group"]): row for row in rows}
    assert by_group["all", "all"]["PCK@0.05"] == "66.6667"
    assert (by_group["all", "all"]["PCK@0.05 low"], by_group["all", "all"]["PCK@0.05 high"]) == (
        "33.3333",
        "100.0",
    )
    dog = by_group["category", "dog|hound"]
    assert (dog["pairs"], dog["points"], dog["PCK@0.1"], dog["PCK@0.1 low"]) == ("1", "3", "66.6667", "")
    assert ("all", "leak-free") in by_group and ("points", "1 to 4") in by_group


def test_markdown(score: Score) -> None:
    text = to_markdown(score)
    assert "| all pairs | 2 | 6 | 66.7 [33.3, 100.0] |" in text
    assert "| dog\\|hound | 1 | 3 | 33.3 | 66.7 | 66.7 |" in text
    assert text.count(f"`{FINGERPRINT}`") == text.count("| --- |") == 4  # all, category, occlusion, points
    assert {line.count("|") - line.count("\\|") for line in text.splitlines() if line.startswith("|")} == {7}


def test_terminal(score: Score) -> None:
    console = Console(file=io.StringIO(), width=80)
    print_score(score, console)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines.count(FINGERPRINT) == 4
    row = next(line for line in lines if line.startswith("all pairs"))
    assert " ".join(row.split()) == "all pairs 2 6 66.7 [33, 100] 83.3 [67, 100] 83.3 [67, 100]"
    assert "Skipped pairs: 3 (2 x no common point; 1 x image missing)." in lines


def test_remarks_always_count_skips_and_leaks(make_predictions: Callable[..., Predictions]) -> None:
    assert remarks(score_predictions(make_predictions()))[1:] == [
        "Skipped pairs: 0.",
        "Leak-free pairs: unknown; the predictions name no training images (see --train-list).",
    ]
    seen = make_predictions(
        training_images=["one_a.jpg"], skipped=[(str(i), f"reason {i}") for i in range(7)]
    )
    assert remarks(score_predictions(seen))[1:] == [
        f"Skipped pairs: 7 ({'; '.join(f'1 x reason {i}' for i in range(5))}; 2 other reasons).",
        "Leak-free pairs: 0 of 1 share no image with the 1 training images.",
    ]
