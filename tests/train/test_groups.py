"""All pairs among a few images."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np

from dhpf.train.batches import EpochPlan
from dhpf.train.groups import ImageGroups

EVERY = [(Path(a), Path(b)) for a, b in combinations("abcdefg", 2)]  # all pairs of seven images: 21


def test_a_group_has_all_pairs_among_its_images() -> None:
    for group in ImageGroups(EVERY, 4).draw(60, np.random.default_rng(0)):
        images = {end for pair in group for end in EVERY[pair]}
        assert (len(images), len(group), len(set(group))) == (4, 6, 6)


def test_what_is_not_connected_is_never_in_one_group() -> None:
    ends = [(Path(a), Path(b)) for a, b in ("ab", "cd", "ce", "ed")]
    groups = ImageGroups(ends, 4).draw(40, np.random.default_rng(0))
    assert {frozenset(group) for group in groups} >= {frozenset({0}), frozenset({1, 2, 3})}
    assert all(set(group) == {0} or 0 not in group for group in groups)


def test_draws_as_many_pairs_as_are_wanted() -> None:
    groups = ImageGroups(EVERY, 4).draw(15, np.random.default_rng(1))
    assert [len(group) for group in groups] == [6, 6, 3]


def test_batches_keep_groups_together_and_are_full() -> None:
    plan = EpochPlan([21], 6, 18, seed=2, groups=[ImageGroups(EVERY, 4)])
    batches = [[pair for _, pair in position.indices] for position in plan.batches(0)]
    assert len(batches) == plan.steps == 3
    for batch in batches:
        assert len({end for pair in batch for end in EVERY[pair]}) == 4
    assert [p.indices for p in plan.batches(0, start=1)] == [p.indices for p in plan.batches(0)][1:]
