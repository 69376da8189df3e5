from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dhpf.errors import InputError
from dhpf.evaluate.breakdown import Bin, calibrate, summarise
from dhpf.evaluate.predictions import PairPrediction, Predictions
from dhpf.evaluate.protocol import protocol_for
from dhpf.evaluate.score import Score, score_predictions

MakePair = Callable[..., PairPrediction]
Make = Callable[..., Predictions]

FAR = 1000.0


@pytest.fixture
def some_right(make_pair: MakePair) -> MakePair:
    """A pair with the given numbers of right and wrong points."""

    def make(pair_id: str, right: int, wrong: int, **changes: object) -> PairPrediction:
        truth = np.arange(2.0 * (right + wrong)).reshape(-1, 2)
        guess = truth + np.array([(0, 0)] * right + [(FAR, 0)] * wrong)
        return make_pair(pair_id, target_points=truth, predicted_points=guess, **changes)

    return make


def only_value(score: Score, breakdown: str) -> dict[str, float]:
    return {group: summary.values[0] for group, summary in score.breakdowns[breakdown].items()}


def test_breakdown_by_category_and_their_mean(some_right: MakePair, make_predictions: Make) -> None:
    predictions = make_predictions(
        some_right("a", 1, 0, category="dog"),
        some_right("b", 1, 1, category="cat"),
        some_right("c", 0, 2, category="cat"),
        some_right("d", 1, 3, category="cat"),
    )
    score = score_predictions(predictions, alphas=[0.1])
    assert only_value(score, "category") == {"cat": 25, "dog": 100}  # (50 + 0 + 25) / 3
    assert score.category_mean == (62.5,)
    assert score.overall.values == (43.75,)  # (100 + 50 + 0 + 25) / 4
    by_point = score_predictions(predictions, protocol_for("pf-pascal", changes=["average=point"]), [0.1])
    assert only_value(by_point, "category") == {"cat": 25, "dog": 100}  # 2 of 8, 1 of 1
    assert by_point.overall.values == (pytest.approx(100 * 3 / 9),)
    counts = {name: (group.pairs, group.points) for name, group in score.breakdowns["category"].items()}
    assert counts == {"cat": (3, 8), "dog": (1, 1)}


def test_breakdown_by_flags_and_number_of_points(some_right: MakePair, make_predictions: Make) -> None:
    predictions = make_predictions(
        some_right("a", 4, 0, flags={"viewpoint_variation": 0, "truncation": 3}),
        some_right("b", 0, 5, flags={"viewpoint_variation": 2, "truncation": 3}),
        some_right("c", 17, 17, flags={"truncation": 0}),
    )
    score = score_predictions(predictions, alphas=[0.1])
    assert only_value(score, "viewpoint_variation") == {"unknown": 50, "easy": 100, "hard": 0}
    assert only_value(score, "truncation") == {"none": 50, "both": 50}
    assert only_value(score, "points") == {"1 to 4": 100, "5 to 8": 0, "17 or more": 50}


def test_leak_free_pairs_stand_beside_all_pairs(some_right: MakePair, make_predictions: Make) -> None:
    pairs = [some_right("a", 1, 0), some_right("b", 0, 1), some_right("c", 1, 1)]
    seen = make_predictions(*pairs, training_images=["b_a.jpg", "elsewhere/c_b.jpg", "z.jpg"])
    score = score_predictions(seen, alphas=[0.1])
    assert score.overall.values == (50,) and score.training_images == 3
    assert score.leak_free is not None and (score.leak_free.pairs, score.leak_free.values) == (1, (100,))
    given = score_predictions(seen, alphas=[0.1], training_images=["a_a.jpg"])
    assert given.leak_free is not None and (given.leak_free.pairs, given.leak_free.values) == (2, (25,))


def test_unknown_empty_and_exhausting_training_lists_differ(make_predictions: Make) -> None:
    unknown = score_predictions(make_predictions())
    assert (unknown.training_images, unknown.leak_free) == (None, None)
    untrained = score_predictions(make_predictions(training_images=[]))
    assert untrained.training_images == 0
    assert untrained.leak_free is not None and untrained.leak_free.pairs == 1
    everything = score_predictions(make_predictions(training_images=["one_a.jpg"]))
    assert (everything.training_images, everything.leak_free) == (1, None)


def test_skipped_pairs_and_points_without_answer_are_counted(
    make_pair: MakePair, make_predictions: Make
) -> None:
    guess = np.array([(30, 40), (np.nan, np.nan), (30, np.nan)])
    predictions = make_predictions(make_pair(predicted_points=guess), skipped=[("x", "no common point")])
    score = score_predictions(predictions, alphas=[0.1])
    assert score.overall.values == (pytest.approx(100 / 3),)
    assert score.predictions.skipped == (("x", "no common point"),)
    assert score.notes == ("2 points without a prediction count as wrong",)


def test_a_threshold_of_zero_is_said(make_pair: MakePair, make_predictions: Make) -> None:
    predictions = make_predictions(make_pair(target_points=[(5, 5)]), dataset="pf-willow")
    score = score_predictions(predictions)
    assert score.overall.values == (100, 100, 100)  # exact
    assert score.notes == ("1 pairs have a threshold of 0 px: only an exact prediction is right there",)


def test_some_pairs_of_a_split_are_said_to_be_some(make_pair: MakePair, make_predictions: Make) -> None:
    for whole, notes in ((5, ("3 of 5 pairs of the split",)), (3, ())):
        some = make_predictions(
            make_pair("a"), make_pair("b"), skipped=[("x", "why")], training_images=[], split_pairs=whole
        )
        assert score_predictions(some).notes == notes


def test_calibration_by_hand() -> None:
    """Bins of a tenth: 0.42 and 0.48 with one right, 0.9, 1 and 1 with two right, one without confidence."""
    confidences = np.array([0.42, 0.9, np.nan, 1.0, 0.48, 1.0])
    right = np.array([True, True, True, False, False, True])
    found = calibrate(confidences, right)
    assert found is not None and len(found.bins) == 2
    assert found.bins[0] == Bin(0.4, 0.5, 2, pytest.approx(45), pytest.approx(50))
    assert found.bins[1] == Bin(0.9, 1.0, 3, pytest.approx(100 * 2.9 / 3), pytest.approx(200 / 3))
    assert found.error == pytest.approx((2 * 5 + 3 * 30) / 5)
    assert calibrate(np.full(3, np.nan), right[:3]) is None


def test_points_are_right_at_a_tenth_for_the_calibration(
    some_right: MakePair, make_predictions: Make
) -> None:
    pairs = [some_right("a", 1, 1, confidences=[0.95, 0.05]), some_right("b", 1, 0, confidences=[0.98])]
    found = score_predictions(make_predictions(*pairs), alphas=[0.3]).calibration
    assert found is not None
    assert [(each.points, each.right) for each in found.bins] == [(1, 0), (2, 100)]
    assert found.error == pytest.approx((5 + 2 * 3.5) / 3)
    assert score_predictions(make_predictions()).calibration is None
    polygons = make_predictions(some_right("a", 3, 0, confidences=[1, 1, 1]), kind="polygons")
    assert score_predictions(polygons, protocol_for("caltech-101")).calibration is None


def test_masks_are_scored_without_alphas(make_pair: MakePair, make_predictions: Make) -> None:
    square = np.array([(0, 0), (100, 0), (100, 100), (0, 100)])
    pair = make_pair(source_points=square, predicted_points=square, target_points=square)
    score = score_predictions(make_predictions(pair, dataset="caltech-101", kind="polygons"))
    assert (score.metrics, score.overall.values) == (("LT-ACC", "IoU"), (100, 100))
    assert score.fingerprint.startswith("masks[") and "points" not in score.breakdowns


@pytest.mark.parametrize("alphas", [[], [0], [-0.1], [float("nan")], [0.1, 0.1]])
def test_bad_alphas(alphas: list[float], make_predictions: Make) -> None:
    with pytest.raises(InputError, match=r"alphas .*wanted"):
        score_predictions(make_predictions(), alphas=alphas)


def test_nothing_to_score() -> None:
    empty = Predictions.of_pairs(
        [], dataset="pf-pascal", split="test", model="m", commit="", skipped=[("x", "why"), ("y", "why")]
    )
    with pytest.raises(InputError, match="no pair to score: the predictions hold none and skip 2"):
        score_predictions(empty)


def test_bootstrap_of_a_fair_coin() -> None:
    """Half of 400 pairs at 100 %: the mean's deviation is 50 / sqrt(400) = 2.5, the interval 50 +- 4.9."""
    values = np.repeat([0.0, 100.0], 200)[:, None]
    summary = summarise(values, np.ones(400), points=400, resamples=4000)
    assert summary.values == (50,) and summary.intervals is not None
    low, high = summary.intervals[0]
    assert low == pytest.approx(50 - 4.9, abs=0.4) and high == pytest.approx(50 + 4.9, abs=0.4)


def test_bootstrap_weights_pairs_by_their_points() -> None:
    """With all weight on one pair of two, a resample without it (1 of 4) gives the other's value."""
    summary = summarise(np.array([[100.0], [0.0]]), np.array([1e9, 1e-9]), points=2, resamples=1000)
    assert summary.values[0] == pytest.approx(100)
    assert summary.intervals is not None and summary.intervals[0] == pytest.approx((0, 100))


def test_bootstrap_is_repeatable_and_silent_about_one_pair() -> None:
    values, ones = np.arange(10.0)[:, None], np.ones(10)
    assert summarise(values, ones, 10, seed=3) == summarise(values, ones, 10, seed=3)
    assert summarise(values, ones, 10, seed=3) != summarise(values, ones, 10, seed=4)
    assert summarise(values[:1], ones[:1], 1).intervals is None
    assert summarise(np.full((5, 1), 7.0), np.ones(5), 5).intervals == ((7, 7),)
