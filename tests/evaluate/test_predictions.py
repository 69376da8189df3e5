from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dhpf.errors import InputError
from dhpf.evaluate.predictions import LAYOUT, PairPrediction, Predictions

NO_CHARACTER = np.array([0x110000], np.uint32).view("<U1").reshape(())

MakePair = Callable[..., PairPrediction]
Make = Callable[..., Predictions]


@pytest.fixture
def full(make_pair: MakePair, make_predictions: Make) -> Predictions:
    """Two pairs with everything that a file can hold for keypoints."""
    gates = {"layers": [True, False], "gate_probabilities": [0.75, 0.25]}
    sure, lost = {"confidences": [0.5, 0.25, 1]}, {"confidences": [np.nan]}
    return make_predictions(
        make_pair("one", target_box=(1, 2, 3, 4), flags={"occlusion": 2}, **gates, **sure),
        make_pair("two", target_points=[(5, 6.5)], predicted_points=[(np.nan, np.nan)], **gates, **lost),
        config='{"beta": 0.5, "layers": [3]}',
        split_pairs=7,
        input_size=(240, 240),
        training_images=["b.jpg", "a.jpg", "b.jpg"],
        skipped=[("three", "no common point")],
    )


def arrays_of(predictions: Predictions) -> dict[str, Any]:
    values = {name: getattr(predictions, name) for name in LAYOUT}
    given = {name: value for name, value in values.items() if value is not None}
    return {"format": "dhpf-predictions", "version": 2, **given}


def test_a_file_gives_back_what_was_saved(full: Predictions, tmp_path: Path) -> None:
    again = Predictions.load(full.save(tmp_path / "p.npz"))
    for name in LAYOUT:
        np.testing.assert_array_equal(getattr(again, name), getattr(full, name), err_msg=name)
    assert again.skipped == (("three", "no common point"),)
    assert again.training_images is not None and again.training_images.tolist() == ["a.jpg", "b.jpg"]


def test_a_pair_comes_back_as_it_was_given(full: Predictions, make_pair: MakePair) -> None:
    one, two = full.pair(0), full.pair(1)
    given = make_pair("one")
    assert (one.pair_id, one.source_image, one.target_size) == ("one", "one_a.jpg", (300, 200))
    np.testing.assert_array_equal(one.target_points, given.target_points)
    np.testing.assert_array_equal(np.asarray(one.target_box), [1, 2, 3, 4])
    assert (two.target_box, two.flags, one.flags) == (None, {}, {"occlusion": 2})
    np.testing.assert_array_equal(np.asarray(one.confidences), [0.5, 0.25, 1])
    np.testing.assert_array_equal(two.target_points, [[5, 6.5]])


def test_a_file_can_be_made_again_from_its_pairs(full: Predictions, tmp_path: Path) -> None:
    again = Predictions.of_pairs(
        [full.pair(index) for index in range(len(full))],
        dataset=full.dataset,
        split=full.split,
        model=full.model,
        commit=full.commit,
        config=full.config,
        split_pairs=full.split_pairs,
        input_size=(240, 240),
        training_images=["a.jpg", "b.jpg"],
        skipped=full.skipped,
    )
    assert again.save(tmp_path / "a.npz").read_bytes() == full.save(tmp_path / "b.npz").read_bytes()


def test_the_same_content_gives_the_same_bytes_and_leaves_nothing_else(
    full: Predictions, tmp_path: Path
) -> None:
    first = full.save(tmp_path / "a.npz").read_bytes()
    assert full.save(tmp_path / "b.npz").read_bytes() == first
    assert Predictions.load(tmp_path / "a.npz").save(tmp_path / "c.npz").read_bytes() == first
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npz", "b.npz", "c.npz"]


def test_numpy_reads_the_file_without_pickles(full: Predictions, tmp_path: Path) -> None:
    with np.load(full.save(tmp_path / "p.npz"), allow_pickle=False) as arrays:
        assert str(arrays["format"]) == "dhpf-predictions" and int(arrays["version"]) == 2
        np.testing.assert_array_equal(arrays["point_offsets"], [0, 3, 4])
        assert arrays["pair_ids"].tolist() == ["one", "two"]


def test_polygons_have_their_own_number_of_true_points(
    make_pair: MakePair, make_predictions: Make, tmp_path: Path
) -> None:
    square = np.array([(0, 0), (9, 0), (9, 9), (0, 9)])
    pair = make_pair(source_points=square, predicted_points=square, target_points=square[:3])
    predictions = make_predictions(pair, kind="polygons")
    again = Predictions.load(predictions.save(tmp_path / "p.npz"))
    assert again.target_offsets is not None and again.target_offsets.tolist() == [0, 3]
    np.testing.assert_array_equal(again.pair(0).target_points, square[:3])


def test_no_pairs_at_all_can_be_stored(tmp_path: Path) -> None:
    empty = Predictions.of_pairs([], dataset="d", split="s", model="m", commit="c", skipped=[("x", "why")])
    again = Predictions.load(empty.save(tmp_path / "p.npz"))
    assert len(again) == 0 and again.skipped == (("x", "why"),) and again.source_points.shape == (0, 2)


@pytest.mark.parametrize("share", [0.001, 0.02, 0.5, 0.9, 0.999])
def test_a_file_cut_short_is_named(share: float, full: Predictions, tmp_path: Path) -> None:
    path = full.save(tmp_path / "p.npz")
    content = path.read_bytes()
    path.write_bytes(content[: max(3, int(share * len(content)))])
    with pytest.raises(InputError, match=r"p\.npz: cut short or damaged"):
        Predictions.load(path)


def test_a_changed_byte_is_found(full: Predictions, tmp_path: Path) -> None:
    path = full.save(tmp_path / "p.npz")
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo("source_points.npy")
    content[member.header_offset + 30 + len("source_points.npy") + member.compress_size // 2] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"p\.npz: cut short or damaged"):
        Predictions.load(path)


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.npz: no such file; `dhpf predict"):
        Predictions.load(tmp_path / "none.npz")
    with pytest.raises(InputError, match="cannot be read"):
        Predictions.load(tmp_path)
    text = tmp_path / "text.npz"
    text.write_text("PCK 100")
    with pytest.raises(InputError, match=r"text\.npz: not an \.npz file"):
        Predictions.load(text)
    other = tmp_path / "other.npz"
    np.savez(other, x=np.zeros(3))
    with pytest.raises(InputError, match=r"other\.npz: an \.npz file, but not of predictions"):
        Predictions.load(other)


def test_pickles_are_never_opened(full: Predictions, tmp_path: Path) -> None:
    path = tmp_path / "p.npz"
    np.savez(path, allow_pickle=True, **(arrays_of(full) | {"pair_ids": np.array(["one", None])}))
    with pytest.raises(InputError, match=r"p\.npz: an array in it cannot be read"):
        Predictions.load(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 3}, "predictions of version '3'; this dhpf reads 1 and 2"),
        ({"predicted_points": None}, "missing: predicted_points"),
        (
            {"target_boxes": None, "target_box": np.zeros((2, 4))},
            "unknown array 'target_box': did you mean 'target_boxes'",
        ),
        (
            {"categories": np.array(["cat"])},
            r"categories has shape \(1,\); wanted: \(P,\) \(P = 2, by pair_ids",
        ),
        (
            {"predicted_points": np.zeros((3, 2))},
            r"predicted_points has shape \(3, 2\).*N = 4, by source_points",
        ),
        ({"source_points": np.zeros((4, 3))}, r"source_points has shape \(4, 3\); wanted: \(N, 2\)"),
        ({"source_points": np.zeros(8)}, r"source_points has shape \(8,\)"),
        ({"source_points": np.full((4, 2), "x")}, "source_points holds <U1; wanted: number"),
        ({"source_points": np.full((4, 2), np.nan)}, "source_points holds NaN"),
        ({"target_points": np.zeros((5, 2))}, "5 target and 4 source points; keypoints need as many"),
        ({"source_points": np.full((4, 2), 1e300)}, "source_points holds NaN, infinity or a number beyond"),
        ({"predicted_points": np.full((4, 2), np.inf)}, "predicted_points holds infinity or a number beyond"),
        ({"target_sizes": np.array([(3, 4), (0, 4)])}, "an image size is not from 1 to 64,000,000 pixels"),
        ({"source_sizes": np.array([(3, 4), (2**40, 2**40)])}, "an image size is not from 1 to 64,000,000"),
        ({"point_offsets": np.array([0, 4])}, "point_offsets must be P . 1 = 3 numbers"),
        ({"point_offsets": np.array([1, 3, 4])}, "that rise from 0 to the number of points, 4"),
        ({"point_offsets": np.array([0, 3, 3])}, "point_offsets must be"),
        ({"point_offsets": np.array([0, 5, 4])}, "point_offsets must be"),
        ({"point_offsets": np.array([0, 4, 4])}, "pair two has no points"),
        ({"pair_ids": np.array(["one", "one"])}, "pair one occurs 2 times"),
        ({"skipped_ids": np.array(["one"])}, "pair one is both predicted and skipped"),
        ({"skipped_reasons": None}, "skipped_ids and skipped_reasons go together"),
        ({"kind": "lines"}, "kind is 'lines'; wanted: keypoints or polygons"),
        ({"kind": "polygons"}, "target_offsets say where true polygons begin: polygons need them"),
        ({"target_offsets": np.array([0, 3, 4])}, "polygons need them, keypoints do not"),
        ({"direction": "forward"}, "direction is 'forward'; wanted: source-to-target or target-to-source"),
        (
            {"layers": np.zeros((2, 3), dtype=bool)},
            r"gate_probabilities has shape \(2, 2\).*L = 3, by layers",
        ),
        ({"confidences": np.array([0, 0.5, 1, 1.01])}, "confidences must be from 0 to 1, or NaN"),
        ({"confidences": np.zeros(3)}, r"confidences has shape \(3,\).*N = 4, by source_points"),
        ({"model": "red\x1b[31m"}, "model holds control characters or broken Unicode"),
        (
            {"categories": np.array(["cat", "\udc80"])},
            "categories holds control characters or broken Unicode",
        ),
        ({"model": NO_CHARACTER}, "model holds control characters or broken Unicode"),
        ({"config": "[1]"}, "config must be a JSON object"),
        ({"config": '{"a": NaN}'}, "config must be a JSON object"),
        ({"config": '{"a": 1e999}'}, "config must be a JSON object"),
        ({"config": '{"a": "\\ud800"}'}, "config must be a JSON object"),
        ({"config": '{"a": ' * 100_000 + "1" + "}" * 100_000}, "config must be a JSON object"),
        ({"\x1b[31m": np.zeros(1)}, r"unknown array '\\x1b\[31m'"),
    ],
)
def test_what_is_wrong_in_a_file_is_said(
    changes: dict[str, Any], message: str, full: Predictions, tmp_path: Path
) -> None:
    path = tmp_path / "p.npz"
    changed = arrays_of(full) | changes
    np.savez(path, **{name: value for name, value in changed.items() if value is not None})
    with pytest.raises(InputError, match=rf"^{path}: .*{message}") as error:
        Predictions.load(path)
    assert "\n" not in str(error.value)


def test_a_surplus_in_one_pair_does_not_hide_a_lack_in_another(
    make_pair: MakePair, make_predictions: Make
) -> None:
    two, four = np.zeros((2, 2)), np.zeros((4, 2))
    with pytest.raises(InputError, match="pair a has 3 source, 2 predicted and 3 target points"):
        make_predictions(make_pair("a", predicted_points=two), make_pair("b", predicted_points=four))


def test_gates_of_some_pairs_only_are_refused(make_pair: MakePair, make_predictions: Make) -> None:
    for given in ({"layers": [True]}, {"confidences": [1, 1, 1]}):
        with pytest.raises(InputError, match=rf"{next(iter(given))}: give the same number for every pair"):
            make_predictions(make_pair("a", **given), make_pair("b"))


def test_a_folder_that_does_not_exist_is_named(full: Predictions, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot write .*none/p\.npz"):
        full.save(tmp_path / "none" / "p.npz")


def test_a_file_of_version_1_is_still_read(full: Predictions, tmp_path: Path) -> None:
    new = ("confidences", "config", "split_pairs")
    old = {name: value for name, value in arrays_of(full).items() if name not in new} | {"version": 1}
    np.savez(tmp_path / "p.npz", **old)
    again = Predictions.load(tmp_path / "p.npz")
    assert (again.confidences, again.config, again.split_pairs) == (None, None, None)
    np.testing.assert_array_equal(again.predicted_points, full.predicted_points)


def test_bytes_do_not_depend_on_the_clock(full: Predictions, tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(full.save(tmp_path / "p.npz").read_bytes())) as archive:
        assert {member.date_time for member in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
