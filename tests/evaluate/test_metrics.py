"""Every field of the protocol, with answers worked out by hand.

The pair of the fixtures: target 300 x 200 px; keypoints (30, 40), (130, 40), (30, 120). In the 240-px square,
x shrinks by 0.8 and y grows by 1.2.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhpf.data.pairs import Photo
from dhpf.errors import InputError
from dhpf.evaluate.metrics import mask_scores, measure, pair_masks, pair_pck, photo_pck, threshold_length
from dhpf.evaluate.predictions import PairPrediction, Predictions
from dhpf.evaluate.protocol import Protocol, protocol_for
from dhpf.evaluate.score import score_predictions

MakePair = Callable[..., PairPrediction]
Make = Callable[..., Predictions]


@pytest.mark.parametrize(
    ("threshold", "frame", "length"),
    [
        ("image", "original", 300),  # max(300, 200)
        ("image", "square240", 240),
        ("image", "square64", 64),
        ("box", "original", 120),  # box 120 x 90
        ("box", "square240", 108),  # 120 * 0.8 = 96, 90 * 1.2 = 108
        ("keypoints", "original", 100),  # extent 100 x 80
        ("keypoints", "square240", 96),  # 80, 96
        ("legacy-padded", "original", 131),  # from -1 to 130, from -1 to 120
        ("legacy-padded", "square240", 145),  # from -1 to 104, from -1 to 144
    ],
)
def test_threshold_length(threshold: str, frame: str, length: float, make_pair: MakePair) -> None:
    protocol = protocol_for("pf-pascal", changes=[f"threshold={threshold}", f"frame={frame}"])
    assert measure(make_pair(target_box=(20, 30, 140, 120)), protocol)[1] == pytest.approx(length)


def test_padding_changes_nothing_once_a_keypoint_is_at_minus_one() -> None:
    points = [(-1, -1), (50, 70)]
    assert threshold_length("keypoints", (300, 200), None, points) == 71
    assert threshold_length("legacy-padded", (300, 200), None, points) == 71
    assert threshold_length("legacy-padded", (300, 200), None, points[1:]) == 71


def test_errors_are_measured_in_the_frame(make_pair: MakePair) -> None:
    pair = make_pair(target_points=[(30, 40)], predicted_points=[(36, 48)])
    original, square = protocol_for("pf-pascal", "original"), protocol_for("pf-pascal")
    np.testing.assert_allclose(measure(pair, original)[0], [10])  # 6, 8, 10
    np.testing.assert_allclose(measure(pair, square)[0], [np.hypot(6 * 0.8, 8 * 1.2)])


def test_pck_of_one_pair_from_plain_arrays() -> None:
    """Distances of 0, 5 and 13 px and no answer, of a length of 50: right at 0.1 are 2 of 4, or 1 with <."""
    truth = [(10, 10), (20, 10), (30, 10), (40, 10)]
    guess = [(10, 10), (23, 14), (42, 15), (np.nan, np.nan)]
    photo = Photo(Path("b"), (50, 50), np.array(truth, float))
    for compare, wanted in (("<=", [25, 50, 75]), ("<", [25, 25, 75])):
        protocol = Protocol("image", "original", compare=compare)
        assert photo_pck(photo, guess, protocol, [0.01, 0.1, 0.3]).tolist() == wanted


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_pairs_are_scored_as_by_plain_arrays(seed: int) -> None:
    random = np.random.default_rng(seed)
    width, height = random.integers(50, 400, 2).tolist()
    truth = random.uniform(0, (width, height), (6, 2))
    guess, box = truth + random.normal(0, 20, truth.shape), np.array([5, 6, 40, 49])
    pair = PairPrediction("p", "c", "a", "b", (9, 9), (width, height), truth, guess, truth, target_box=box)
    predictions = Predictions.of_pairs([pair], dataset="d", split="s", model="m", commit="")
    scale = np.array([240 / width, 240 / height])  # lengths are scaled by this alone
    for threshold in ("image", "box", "keypoints", "legacy-padded"):
        protocol = protocol_for("pf-pascal", changes=[f"threshold={threshold}"])
        length = threshold_length(threshold, (240, 240), box * np.tile(scale, 2), truth * scale)
        error = np.hypot(*((guess - truth) * scale).T)
        wanted = [100 * np.mean(error <= alpha * length) for alpha in (0.04, 0.1, 0.21)]
        np.testing.assert_allclose(pair_pck(predictions, protocol, [0.04, 0.1, 0.21]), [wanted])


def test_the_frame_decides_whether_a_point_is_right(make_pair: MakePair, make_predictions: Make) -> None:
    # 29 px down of 30 allowed in the original; 34.8 px of 24 allowed in the square.
    predictions = make_predictions(make_pair(target_points=[(30, 40)], predicted_points=[(30, 69)]))
    assert pair_pck(predictions, protocol_for("pf-pascal", "original"), [0.1]) == 100
    assert pair_pck(predictions, protocol_for("pf-pascal"), [0.1]) == 0


def test_a_point_exactly_at_the_threshold(make_pair: MakePair, make_predictions: Make) -> None:
    predictions = make_predictions(make_pair(target_points=[(30, 40)], predicted_points=[(48, 64)]))  # 30 px
    for compare, wanted in (("<=", 100), ("<", 0)):
        protocol = protocol_for("pf-pascal", "original", [f"compare={compare}"])
        assert pair_pck(predictions, protocol, [0.1]) == wanted


def test_average_over_images_or_points(make_pair: MakePair, make_predictions: Make) -> None:
    one_of_one = make_pair("a", target_points=[(30, 40)])
    one_of_three = make_pair("b", predicted_points=[(30, 40), (230, 40), (130, 120)])
    predictions = make_predictions(one_of_one, one_of_three)
    by_image = score_predictions(predictions, protocol_for("pf-pascal"), [0.1])
    by_point = score_predictions(predictions, protocol_for("pf-pascal", changes=["average=point"]), [0.1])
    np.testing.assert_allclose(by_image.overall.values, [(100 + 100 / 3) / 2])
    np.testing.assert_allclose(by_point.overall.values, [100 * 2 / 4])


def test_direction_must_be_that_of_the_predictions(make_predictions: Make) -> None:
    back = make_predictions(direction="target-to-source")
    with pytest.raises(
        InputError, match="predictions go target-to-source, the protocol wants source-to-target"
    ):
        score_predictions(back, protocol_for("pf-pascal"))
    assert score_predictions(back, protocol_for("pf-pascal", "nc-net")).overall.values == (100, 100, 100)


def test_the_legacy_threshold_is_looser_by_a_known_amount(
    make_pair: MakePair, make_predictions: Make
) -> None:
    """Ten keypoints from 100 to 200 px in a 240-px image: the extent is 100, the padded one 201.

    At alpha = 0.1, 10 and 20.1 px are allowed. With errors of 2, 4, ... 20 px, 5 and 10 points are right.
    """
    truth = np.column_stack([np.linspace(100, 200, 10), np.full(10, 150)])
    guess = truth + np.column_stack([np.zeros(10), 2 * np.arange(1, 11)])
    pair = make_pair(target_points=truth, predicted_points=guess, target_size=(240, 240))
    predictions = make_predictions(pair, dataset="pf-willow")
    values = {
        name: score_predictions(predictions, protocol_for("pf-willow", name), [0.1]).overall.values[0]
        for name in ("dhpf", "dhpf-legacy")
    }
    assert values == {"dhpf": 50, "dhpf-legacy": 100}


def test_agrees_with_a_literal_padded_computation(make_pair: MakePair, make_predictions: Make) -> None:
    """The published procedure spelt out: arrays of 40 columns filled up with -1, one pair after the other."""
    random = np.random.default_rng(0)
    pairs, wanted = [], []
    for number in range(20):
        count, size = random.integers(1, 20), random.integers(50, 400, 2)
        truth = random.uniform(0, size, (count, 2))
        guess = truth + random.normal(0, 15, truth.shape)
        pairs.append(
            make_pair(
                str(number), target_points=truth, predicted_points=guess, target_size=tuple(size.tolist())
            )
        )
        padded = np.full((2, 40), -1.0)
        padded[:, :count] = (truth * 240 / size).T
        longest = max(padded[axis].max() - padded[axis].min() for axis in (0, 1))
        resized = (guess * 240 / size).T
        right = [
            sum((resized[axis, k] - padded[axis, k]) ** 2 for axis in (0, 1)) ** 0.5 <= 0.1 * longest
            for k in range(count)
        ]
        wanted.append(100 * sum(right) / count)
    found = pair_pck(make_predictions(*pairs), protocol_for("pf-willow", "dhpf-legacy"), [0.1])
    np.testing.assert_allclose(found[:, 0], wanted)
    assert 0 < np.mean(wanted) < 100


def test_boxes_must_be_there_for_a_box_threshold(make_pair: MakePair, make_predictions: Make) -> None:
    some = make_predictions(make_pair("a", target_box=(0, 0, 9, 9)), make_pair("b"))
    for predictions, first in ((make_predictions(), "one"), (some, "b")):
        with pytest.raises(
            InputError, match=f"pair {first}: threshold=box needs the box of the target's object"
        ):
            pair_pck(predictions, protocol_for("spair-71k"), [0.1])


def test_masks_by_hand() -> None:
    truth = np.zeros((10, 10), dtype=bool)
    guess = truth.copy()
    truth[2:6, 2:6] = True  # 16 pixels
    guess[4:8, 4:8] = True  # 16 pixels, 4 in common, 28 in either
    assert mask_scores(guess, truth) == (76, pytest.approx(100 * 4 / 28))  # 24 of 100 labels differ
    assert mask_scores(truth, truth) == (100, 100)
    assert mask_scores(~truth, ~truth & False) == (pytest.approx(16), 0)


def test_masks_are_resized_as_images_are(make_pair: MakePair, make_predictions: Make) -> None:
    """Pixel columns 1 and 2 of 4, x from 0.5 to 2.5, are columns 2 to 5 of 8: 4 of 8 columns, all rows."""
    band = np.array([(0.5, -0.5), (2.5, -0.5), (2.5, 3.5), (0.5, 3.5)])
    everything = np.array([(-0.5, -0.5), (3.5, -0.5), (3.5, 3.5), (-0.5, 3.5)])
    pair = make_pair(source_points=band, predicted_points=band, target_points=everything, target_size=(4, 4))
    predictions = make_predictions(pair, dataset="caltech-101", kind="polygons")
    for frame in ("original", "square8", "square200"):
        protocol = protocol_for("caltech-101", changes=[f"frame={frame}"])
        np.testing.assert_allclose(pair_masks(predictions, protocol), [[50, 50]])


def test_polygons_are_compared_as_masks_in_the_frame(make_pair: MakePair, make_predictions: Make) -> None:
    """Squares of 40 px in a 100 x 100 image, one moved by half its side; the square frame doubles lengths."""
    square = np.array([(10, 10), (50, 10), (50, 50), (10, 50)])
    pair = make_pair(
        source_points=square,
        predicted_points=square + np.array([20, 0]),
        target_points=square[[0, 1, 1, 2, 3]],  # another number of vertices
        target_size=(100, 100),
    )
    predictions = make_predictions(pair, dataset="caltech-101", kind="polygons")
    for frame in ("original", "square200"):
        protocol = protocol_for("caltech-101", changes=[f"frame={frame}"])
        # 2 x 20 x 40 = 1600 of 10000 labels differ; 20 x 40 in common, 60 x 40 in either.
        np.testing.assert_allclose(pair_masks(predictions, protocol), [[84, 100 / 3]])


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), average=st.sampled_from(["image", "point"]))
def test_pck_is_bounded_rises_with_alpha_and_forgets_the_order(seed: int, average: str) -> None:
    random = np.random.default_rng(seed)
    pairs = []
    for number in range(random.integers(1, 8)):
        truth = random.uniform(0, 100, (random.integers(1, 6), 2))
        guess = truth + random.normal(0, 20, truth.shape)
        pairs.append(PairPrediction(str(number), "c", "a", "b", (100, 80), (90, 120), truth, guess, truth))
    about = {"dataset": "pf-pascal", "split": "test", "model": "m", "commit": ""}
    protocol = protocol_for("pf-pascal", changes=[f"average={average}"])
    alphas = [0.01, 0.05, 0.1, 0.3, 10]

    def values(order: list[PairPrediction]) -> tuple[float, ...]:
        return score_predictions(
            Predictions.of_pairs(order, **about), protocol, alphas, resamples=1
        ).overall.values

    found = values(pairs)
    assert all(0 <= value <= 100 for value in found)
    assert list(found) == sorted(found) and found[-1] == pytest.approx(100)
    np.testing.assert_allclose(values([pairs[i] for i in random.permutation(len(pairs))]), found)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), points=st.integers(1, 6))
def test_both_averages_agree_where_all_pairs_have_as_many_points(seed: int, points: int) -> None:
    random = np.random.default_rng(seed)
    pairs = []
    for number in range(5):
        truth = random.uniform(0, 100, (points, 2))
        guess = truth + random.normal(0, 10, truth.shape)
        pairs.append(PairPrediction(str(number), "c", "a", "b", (100, 80), (90, 120), truth, guess, truth))
    predictions = Predictions.of_pairs(pairs, dataset="pf-pascal", split="test", model="m", commit="")
    by_image, by_point = (
        score_predictions(predictions, protocol_for("pf-pascal", changes=[f"average={average}"]), resamples=1)
        for average in ("image", "point")
    )
    np.testing.assert_allclose(by_image.overall.values, by_point.overall.values)
