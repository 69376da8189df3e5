"""Random mirroring and swapping."""

from __future__ import annotations

import numpy as np
import pytest

from dhpf.data.augment import Augmented
from dhpf.data.mini import make_mini
from dhpf.data.pairs import Pair, PairDataset, Photo
from dhpf.data.registry import open_dataset


@pytest.fixture(scope="module")
def pairs(tmp_path_factory) -> PairDataset:
    root = tmp_path_factory.mktemp("mini") / "willow"
    make_mini("pf-willow", root)
    return open_dataset("pf-willow", root)


def choices(augmented: Augmented, pairs: PairDataset) -> list[tuple[bool, bool]]:
    """What happened to each pair: mirrored, swapped."""
    return [
        (augmented[i].source.mirrored, augmented[i].source.path == pairs[i].target.path)
        for i in range(len(augmented))
    ]


def test_all_four_cases_occur_and_keep_true_matches(pairs):
    augmented = Augmented(pairs, seed=1, epoch=0)
    cases = choices(augmented, pairs)
    assert set(cases) == {(False, False), (False, True), (True, False), (True, True)}
    for index, (mirrored, swapped) in enumerate(cases):
        before, after = pairs[index], augmented[index]
        source = before.target if swapped else before.source
        x = source.size[0] - 1 - source.points[:, 0] if mirrored else source.points[:, 0]
        assert np.array_equal(after.source.points, np.stack([x, source.points[:, 1]], axis=1))
        assert after.target.mirrored == mirrored
        assert after.id == before.id


def test_the_choice_depends_on_seed_and_epoch_alone(pairs):
    def of(seed: int, epoch: int) -> list[tuple[bool, bool]]:
        return choices(Augmented(pairs, seed, epoch), pairs)

    assert of(1, 2) == of(1, 2)
    assert of(1, 2) != of(1, 3)
    assert of(1, 2) != of(2, 2)


@pytest.mark.parametrize("probability", [0.0, 1.0])
def test_certain_and_impossible(pairs, probability):
    augmented = Augmented(pairs, seed=0, epoch=0, mirror=probability, swap=probability)
    assert set(choices(augmented, pairs)) == {(bool(probability), bool(probability))}


def test_a_mirrored_target_is_paired_anew_by_names(tmp_path):
    """A left eye belongs to what looks like one: the mirrored right eye. A nose stays a nose."""
    names = "left_eye", "right_eye", "nose", "left_paw"
    source = Photo(tmp_path / "a.jpg", (20, 10), np.array([[5.0, 1], [9, 1], [7, 3], [4, 9]]), names=names)
    target = Photo(tmp_path / "b.jpg", (10, 10), np.array([[2.0, 0], [6, 0], [4, 2], [1, 8]]), names=names)
    pair = Pair("p", 0, "cat", source, target).mirror_target()
    assert pair.source.names == pair.target.names == ("left_eye", "right_eye", "nose")
    assert pair.source.points.tolist() == [[5, 1], [9, 1], [7, 3]]
    assert pair.target.points.tolist() == [[3, 0], [7, 0], [5, 2]]  # of the right eye, the left one, the nose
    assert (pair.source.mirrored, pair.target.mirrored) == (False, True)


def test_without_names_no_target_is_mirrored_alone(pairs):
    augmented = Augmented(pairs, seed=0, epoch=0, mirror=0, swap=0, mirror_target=1)
    assert not any(augmented[k].target.mirrored for k in range(len(pairs)))


def test_named_points_are_mirrored_alone_as_often_as_asked(tmp_path):
    make_mini("coco", tmp_path / "coco")
    pairs = open_dataset("coco", tmp_path / "coco")
    always = Augmented(pairs, seed=0, epoch=0, mirror=0, swap=0, mirror_target=1)
    assert all(always[k].target.mirrored and not always[k].source.mirrored for k in range(len(pairs)))
    assert all(always[k].source.names == always[k].target.names for k in range(len(pairs)))
