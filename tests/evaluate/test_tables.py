from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable

import numpy as np
import pytest
from rich.console import Console

from dhpf.evaluate.predictions import PairPrediction, Predictions
from dhpf.evaluate.render import print_tables, to_markdown
from dhpf.evaluate.score import Score, score_predictions
from dhpf.evaluate.tables import remarks, tables, to_csv, to_dict, to_json

FINGERPRINT = "pck[threshold=image frame=square240 average=image compare=<= direction=source-to-target]"


@pytest.fixture
def score(make_pair: Callable[..., PairPrediction], make_predictions: Callable[..., Predictions]) -> Score:
    """A right cat, and a dog with 1 of 3 points right at 0.05 and 2 of 3 at 0.1 and 0.15."""
    truth = np.array([(30.0, 40.0), (130.0, 40.0), (30.0, 120.0)])
    guess = truth + np.array([(0, 0), (20, 0), (200, 0)])  # 0, 16 and 160 px of 240
    return score_predictions(
        make_predictions(
            make_pair("a", confidences=[0.81, 0.85, 0.83]),
            make_pair(
                "b",
                category="dog|hound",
                predicted_points=guess,
                flags={"occlusion": 1},
                confidences=[0.83, 0.83, 0.15],
            ),
            config='{"epsilon": 1e-9}',
            split_pairs=9,
            training_images=["a_b.jpg"],
            skipped=[("x", "no common point"), ("y", "no common point"), ("z", "image missing")],
        )
    )


def test_json(score: Score) -> None:
    found = json.loads(to_json(to_dict(score)))
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
    assert (found["config"], found["split_pairs"]) == ({"epsilon": 1e-9}, 9)
    assert found["calibration"] == {
        "alpha": 0.1,
        "expected_error": 16.6667,  # (5 * |100 - 83| + 1 * |0 - 15|) / 6
        "bins": [
            {"low": 0.1, "high": 0.2, "points": 1, "confidence": 15, "right": 0},
            {"low": 0.8, "high": 0.9, "points": 5, "confidence": 83, "right": 100},
        ],
    }


def test_json_of_masks_and_of_an_unknown_training_list(
    make_pair: Callable[..., PairPrediction], make_predictions: Callable[..., Predictions]
) -> None:
    predictions = make_predictions(dataset="caltech-101", kind="polygons")
    found = json.loads(to_json(to_dict(score_predictions(predictions))))
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
    text = to_markdown(tables(score), remarks(score))
    assert "| all pairs | 2 | 6 | 66.7 [33.3, 100.0] |" in text
    assert "| dog\\|hound | 1 | 3 | 33.3 | 66.7 | 66.7 |" in text
    assert "| 0.8 to 0.9 | 5 | 83.0 | 100.0 |" in text
    assert "- Expected calibration error: 16.7 percent." in text and "- 5 of 9 pairs of the split." in text
    # All pairs, by category, occlusion and number of points, and the calibration.
    assert text.count(f"`{FINGERPRINT}`") == text.count("| --- |") == 5
    bars = [line.count("|") - line.count("\\|") for line in text.splitlines() if line.startswith("|")]
    assert set(bars[:-4]) == {7} and set(bars[-4:]) == {5}


def test_terminal(score: Score) -> None:
    console = Console(file=io.StringIO(), width=80)
    print_tables(tables(score), remarks(score), console, digits=0)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines.count(FINGERPRINT) == 5
    row = next(line for line in lines if line.startswith("all pairs"))
    assert " ".join(row.split()) == "all pairs 2 6 66.7 [33, 100] 83.3 [67, 100] 83.3 [67, 100]"
    assert "Skipped pairs: 3 (2 x no common point; 1 x image missing)." in lines
    assert "0.8 to 0.9 5 83.0 100.0" in [" ".join(line.split()) for line in lines]


def test_names_are_never_markup(
    make_pair: Callable[..., PairPrediction], make_predictions: Callable[..., Predictions]
) -> None:
    evil = "[red]x[/red] <b> *y* `z` ![w](http://e.vil) |"
    score = score_predictions(make_predictions(make_pair(category=evil), model=evil, skipped=[("s", evil)]))
    plain = r"\[red\]x\[/red\] \<b\> \*y\* \`z\` !\[w\](http://e.vil) \|"
    text = to_markdown(tables(score), remarks(score))
    assert text.count(plain) == 3 and evil not in text
    console = Console(file=io.StringIO(), width=300)
    print_tables(tables(score), remarks(score), console)
    assert console.file.getvalue().count(evil) == 3  # type: ignore[attr-defined]


def test_nan_is_no_json() -> None:
    with pytest.raises(ValueError):
        to_json({"value": float("nan")})


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
