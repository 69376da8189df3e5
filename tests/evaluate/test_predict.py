"""Predictions of a data set are those of the matcher, pair by pair; what cannot be predicted is named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from dhpf import InputError, Matcher
from dhpf.data import make_mini, open_dataset
from dhpf.data.pairs import PairDataset
from dhpf.evaluate.predict import Predicted, default_workers, evenly_spaced, predict
from dhpf.evaluate.predictions import Predictions
from dhpf.evaluate.score import score_predictions
from dhpf.methods.dhpf import DHPF


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A mini PF-PASCAL: 9 test pairs of 9 images, the official layout."""
    folder = tmp_path_factory.mktemp("pascal") / "root"
    make_mini("pf-pascal", folder)
    return folder


@pytest.fixture
def pairs(root: Path) -> PairDataset:
    return open_dataset("pf-pascal", root, "test")


def predictions_of(done: Predicted) -> Predictions:
    assert done.predictions is not None
    return done.predictions


def test_predictions_are_those_of_the_matcher_in_the_order_of_the_split(
    pairs: PairDataset, quick: Matcher, tmp_path: Path, one_thread: None
) -> None:
    done = predict(quick, pairs, tmp_path / "p.npz")
    found = Predictions.load(tmp_path / "p.npz")
    assert found.pair_ids.tolist() == [entry.id for entry in pairs.entries]
    assert (found.dataset, found.split, found.model) == ("pf-pascal", "test", "hpf-resnet50")
    assert found.input_size is not None and found.input_size.tolist() == [64, 64]
    assert (
        found.training_images is not None and len(found.training_images) == 0
    )  # fixed layers are not trained
    for index, pair in enumerate(pairs):
        stored = found.pair(index)
        match = quick.match(pair.source.path, pair.target.path)
        np.testing.assert_array_equal(stored.predicted_points, match.transfer(pair.source.points))
        sure = match.confidence_at(pair.source.points).clip(0, 1)
        np.testing.assert_array_equal(np.asarray(stored.confidences), sure)
        np.testing.assert_array_equal(stored.source_points, pair.source.points)
        np.testing.assert_array_equal(stored.target_points, pair.target.points)
        np.testing.assert_array_equal(np.asarray(stored.target_box), pair.target.box)
        assert (stored.category, stored.source_size) == (pair.category, pair.source.size)
        assert pairs.root / stored.source_image == pair.source.path
        assert np.flatnonzero(np.asarray(stored.layers)).tolist() == [2, 7, 11, 12, 15]
    assert (done.computed, done.kept, found.split_pairs) == (9, 0, 9)
    assert found.config is not None and json.loads(found.config) == quick.description
    assert predictions_of(done).predicted_points.tolist() == found.predicted_points.tolist()
    assert [path.name for path in tmp_path.iterdir()] == ["p.npz"]


def test_each_image_is_computed_once(pairs: PairDataset, quick: Matcher, tmp_path: Path) -> None:
    different = {path for entry in pairs.entries for path in (entry.source, entry.target)}
    assert predict(quick, pairs, tmp_path / "p.npz").images == len(different) == 9


def test_a_limit_takes_pairs_evenly_spaced_over_the_split(
    pairs: PairDataset, quick: Matcher, tmp_path: Path
) -> None:
    some = predictions_of(predict(quick, pairs, tmp_path / "some.npz", limit=4))
    names = [entry.id for entry in pairs.entries]
    assert some.pair_ids.tolist() == [names[0], names[2], names[4], names[6]] and some.split_pairs == 9
    assert score_predictions(some).notes == ("4 of 9 pairs of the split",)
    predict(quick, pairs, tmp_path / "all.npz")
    predict(quick, pairs, tmp_path / "more.npz", limit=10)
    assert (tmp_path / "more.npz").read_bytes() == (tmp_path / "all.npz").read_bytes()


def test_evenly_spaced() -> None:
    assert evenly_spaced(10, 3) == [0, 3, 6] and evenly_spaced(3, None) == evenly_spaced(3, 8) == [0, 1, 2]
    assert evenly_spaced(12234, 12234) == list(range(12234))
    with pytest.raises(InputError, match="limit 0: wanted a number of pairs, 1 or more"):
        evenly_spaced(10, 0)


@pytest.mark.parametrize("name", ["JPEGImages/2008_001003.jpg", "test_pairs.csv", "link.npz"])
def test_nothing_but_predictions_is_replaced(name: str, quick: Matcher, tmp_path: Path) -> None:
    make_mini("pf-pascal", tmp_path)
    (tmp_path / "link.npz").symlink_to(tmp_path / "test_pairs.csv")
    before = (tmp_path / name).read_bytes()
    with pytest.raises(InputError, match="exists and holds no predictions; give the output another name"):
        predict(quick, open_dataset("pf-pascal", tmp_path, "test"), tmp_path / name)
    assert (tmp_path / name).read_bytes() == before and not list(tmp_path.rglob("*part*"))


def test_what_the_file_cannot_hold_is_an_error_before_the_work(
    pairs: PairDataset, quick: Matcher, tmp_path: Path
) -> None:
    strange = Matcher(quick.method, "caf\udce9.safetensors", size=64)  # a name that is not UTF-8
    with pytest.raises(InputError, match="model holds control characters or broken Unicode"):
        predict(strange, pairs, tmp_path / "p.npz")
    pairs.entries = (*pairs.entries[:-1], pairs.entries[-1]._replace(category="\x1b[31m"))
    with pytest.raises(InputError, match="control characters"):
        predict(quick, pairs, tmp_path / "p.npz")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("given", ["x", "0", "-1", ""])
def test_a_strange_number_of_processes_is_named(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", given)
    with pytest.raises(InputError, match=f"LOCAL_WORLD_SIZE={given}: wanted numbers as torchrun sets them"):
        default_workers()


def test_the_processors_are_shared_with_the_other_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert default_workers() == 8
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    assert default_workers() == 2


@pytest.fixture
def damaged(tmp_path: Path) -> Iterator[Path]:
    """A mini PF-PASCAL with keypoint columns, to be changed."""
    folder = tmp_path / "damaged"
    make_mini("pf-pascal", folder)
    yield folder


def edit(path: Path, line: int, **cells: str) -> None:
    """Change cells of a CSV file."""
    rows = [row.split(",") for row in path.read_text().splitlines()]
    for name, text in cells.items():
        rows[line][rows[0].index(name)] = text
    path.write_text("".join(",".join(row) + "\n" for row in rows))


def test_what_cannot_be_predicted_is_skipped_with_its_reason(
    damaged: Path, quick: Matcher, tmp_path: Path
) -> None:
    pairs = open_dataset("pf-pascal", damaged, "test")
    cut, gone = pairs.entries[0].source, pairs.entries[3].source
    cut.write_bytes(cut.read_bytes()[:900])
    gone.unlink()
    edit(damaged / "test_pairs.csv", 9, XA="", YA="", XB="", YB="")
    edit(damaged / "test_pairs.csv", 8, XA="1;2")
    pairs = open_dataset("pf-pascal", damaged, "test")
    found = predictions_of(predict(quick, pairs, tmp_path / "p.npz"))
    names = [entry.id for entry in pairs.entries]
    expected = [n for n, e in enumerate(pairs.entries) if {cut, gone} & {e.source, e.target}] + [7, 8]
    assert [name for name, _ in found.skipped] == [names[n] for n in expected]
    assert found.pair_ids.tolist() == [name for n, name in enumerate(names) if n not in expected]
    reasons = dict(found.skipped)
    assert str(cut) in reasons[names[0]] and str(gone) in reasons[names[3]]
    assert "test_pairs.csv, line 9" in reasons[names[7]] and reasons[names[8]] == "no common points"


def test_a_split_without_any_usable_pair_is_an_error(damaged: Path, quick: Matcher, tmp_path: Path) -> None:
    for line in range(1, 13):
        edit(damaged / "trn_pairs.csv", line, XA="", YA="", XB="", YB="")
    training = open_dataset("pf-pascal", damaged, "trn")
    with pytest.raises(InputError, match=r"none of the 12 pairs of pf-pascal, trn .* no common points"):
        predict(quick, training, tmp_path / "p.npz")
    training.entries = ()
    with pytest.raises(InputError, match="the split trn of pf-pascal is empty"):
        predict(quick, training, tmp_path / "p.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["damaged"]


def test_points_outside_their_image_are_taken_at_its_edge_and_counted(
    damaged: Path, quick: Matcher, tmp_path: Path, one_thread: None
) -> None:
    edit(damaged / "test_pairs.csv", 1, XA="-3;20", YA="30;999", XB="5;6", YB="7;8")
    pairs = open_dataset("pf-pascal", damaged, "test")
    done = predict(quick, pairs, tmp_path / "p.npz")
    stored, source = predictions_of(done).pair(0), pairs[0].source
    assert np.asarray(stored.source_points).tolist() == [[-3, 30], [20, 999]]
    match = quick.match(source.path, pairs[0].target.path)
    expected = match.transfer([[-0.5, 30], [20, source.size[1] - 0.5]])
    np.testing.assert_array_equal(stored.predicted_points, expected)


def test_the_other_direction_is_a_swap(
    pairs: PairDataset, quick: Matcher, tmp_path: Path, one_thread: None
) -> None:
    found = predictions_of(predict(quick, pairs, tmp_path / "p.npz", direction="target-to-source"))
    pair, stored = pairs[4], found.pair(4)
    assert found.direction == "target-to-source"
    assert (stored.pair_id, stored.source_size) == (pair.id, pair.target.size)
    match = quick.match(pair.target.path, pair.source.path)
    np.testing.assert_array_equal(stored.predicted_points, match.transfer(pair.target.points))
    np.testing.assert_array_equal(stored.target_points, pair.source.points)
    with pytest.raises(InputError, match="unknown direction 'backwards'"):
        predict(quick, pairs, tmp_path / "p.npz", direction="backwards")


def test_mirrored_training_pairs_are_seen_mirrored(
    root: Path, quick: Matcher, tmp_path: Path, one_thread: None
) -> None:
    training = open_dataset("pf-pascal", root, "trn")
    found = predictions_of(predict(quick, training, tmp_path / "p.npz"))
    [index] = [n for n, entry in enumerate(training.entries) if entry.mirrored][:1]
    pair = training[index]
    match = quick.match(pair.source.image(), pair.target.image())
    np.testing.assert_array_equal(found.pair(index).predicted_points, match.transfer(pair.source.points))


def test_outlines_are_carried_over(quick: Matcher, tmp_path: Path, one_thread: None) -> None:
    make_mini("caltech-101", tmp_path / "root")
    pairs = open_dataset("caltech-101", tmp_path / "root")
    found = predictions_of(predict(quick, pairs, tmp_path / "p.npz"))
    pair, stored = pairs[1], found.pair(1)
    assert found.kind == "polygons" and pair.source.polygon is not None
    match = quick.match(pair.source.path, pair.target.path)
    inside = pair.source.polygon.clip(-0.5, np.array(pair.source.size) - 0.5)
    np.testing.assert_array_equal(stored.predicted_points, match.transfer(inside))
    np.testing.assert_array_equal(stored.target_points, pair.target.polygon)
    assert score_predictions(found).metrics == ("LT-ACC", "IoU")


def test_chosen_layers_and_gates_are_stored(
    pairs: PairDataset, quick: Matcher, tmp_path: Path, one_thread: None
) -> None:
    torch.manual_seed(0)
    dynamic = Matcher(DHPF(quick.method.backbone).for_inference(), "untrained", size=64)
    found = predictions_of(predict(dynamic, pairs, tmp_path / "p.npz"))
    for index, pair in enumerate(pairs):
        match = dynamic.match(pair.source.path, pair.target.path)
        stored = found.pair(index)
        assert tuple(np.flatnonzero(np.asarray(stored.layers))) == match.layers
        np.testing.assert_array_equal(np.asarray(stored.gate_probabilities), match.layer_probability)
    assert found.training_images is None  # the head does not say
