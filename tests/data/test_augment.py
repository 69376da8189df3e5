"""Random mirroring and swapping."""

from __future__ import annotations

import numpy as np
import pytest

from dhpf.data.augment import Augmented
from dhpf.data.mini import make_mini
from dhpf.data.pairs import PairDataset
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
