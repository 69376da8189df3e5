"""Which pairs come when: the same for any number of processes, and after a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dhpf import InputError
from dhpf.data.pairs import Pair, Photo
from dhpf.train.augmentation import Augmentation
from dhpf.train.batches import Batches, EpochPlan, Position, own_share
from dhpf.train.config import AugmentConfig


class Seen(NamedTuple):
    """What stands in for features: the photo and its augmentation."""

    name: str
    mirrored: bool
    augmentation: Augmentation


class FakeStore:
    size = (64, 64)

    def get(self, photo: Photo, augmentation: Augmentation) -> Seen:
        return Seen(photo.path.name, photo.mirrored, augmentation)


def make_pairs(count: int, categories: int = 2) -> Any:
    """Pairs with a point in the middle and one near a corner."""
    points = np.array([(40.0, 30.0), (78.0, 2.0)])
    return [
        Pair(f"{n}", n, f"{n % categories}", *(Photo(Path(f"{n}{s}.png"), (80, 60), points) for s in "ab"))
        for n in range(count)
    ]


class Read(NamedTuple):
    """A batch as one process sees it."""

    position: Position
    slots: list[int]
    pairs: list[tuple[Any, Any]]
    noise: float  # the first random number of the step


def run(rank: int = 0, world_size: int = 1, start: int = 0, negatives: bool = False) -> list[Read]:
    sources = [make_pairs(7), make_pairs(5)]
    plan = EpochPlan([len(s) for s in sources], batch=4, per_epoch=0, seed=3)
    augment = AugmentConfig(augmentations=3, crop=0.5, colour=0.1)
    who = {"rank": rank, "world_size": world_size}
    batches = Batches(sources, plan, FakeStore(), augment, negatives=negatives, **who)  # type: ignore[arg-type]
    found = []
    for position, batch in batches.epoch(2, start):
        assert (batch.total, batch.world_size) == (8 if negatives else 4, world_size)
        pairs = [(pair.source, pair.target) for pair in batch.pairs]
        noise = torch.rand((), generator=batch.generator).item()
        found.append(Read(position, [*batch.slots], pairs, noise))
    return found


@given(st.lists(st.integers(1, 20), min_size=1, max_size=3), st.integers(1, 8), st.integers(0, 10))
def test_an_epoch_takes_every_pair_at_most_once(sizes, batch, per_epoch):
    plan = EpochPlan(sizes, batch, per_epoch, seed=1)
    drawn = sum(min(size, per_epoch or size) for size in sizes)
    taken = [index for position in plan.batches(0) for index in position.indices]
    assert len(taken) == len(set(taken)) == drawn // min(batch, drawn) * min(batch, drawn)
    assert all(pair < sizes[source] for source, pair in taken)
    assert [len(position.indices) for position in plan.batches(0)] == [min(batch, drawn)] * plan.steps


def test_epochs_differ_and_a_restart_takes_up_the_order():
    plan = EpochPlan([9], 2, 0, seed=1)
    first = list(plan.batches(0))
    assert list(plan.batches(0, start=2)) == first[2:]
    assert [p.indices for p in plan.batches(1)] != [p.indices for p in first]
    assert [p.indices for p in EpochPlan([9], 2, 0, seed=2).batches(0)] != [p.indices for p in first]


@given(st.integers(1, 40), st.integers(1, 8))
def test_shares_are_a_division(count, world):
    shares = [own_share(count, rank, world) for rank in range(world)]
    assert [n for share in shares for n in share] == list(range(count))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("negatives", [False, True])
def test_processes_share_the_same_batches(world, negatives):
    alone = run(negatives=negatives)
    together = [run(rank, world, negatives=negatives) for rank in range(world)]
    assert len({batch.noise for batch in alone}) == len(alone) == 3
    for step, batch in enumerate(alone):
        parts = [part[step] for part in together]
        assert all((part.position, part.noise) == (batch.position, batch.noise) for part in parts)
        placed = {slot: pair for part in parts for slot, pair in zip(part.slots, part.pairs, strict=True)}
        assert batch.slots == sorted(placed)
        assert batch.pairs == [placed[slot] for slot in batch.slots]


def test_a_restart_reads_the_same_batches():
    assert run(start=1) == run()[1:]


def test_points_that_are_cut_off_are_left_out_of_both_photos():
    pairs = make_pairs(1)
    plan = EpochPlan([1], 1, 0, seed=0)
    counts = set()
    for epoch in range(30):
        augment = AugmentConfig(mirror=0.0, swap=0.0, augmentations=2, crop=0.4)
        batches = Batches([pairs], plan, FakeStore(), augment, negatives=False)  # type: ignore[arg-type]
        ((_, batch),) = batches.epoch(epoch)
        (pair,) = batch.pairs
        counts.add(len(pair.source_points))
        assert pair.source_points.shape == pair.target_points.shape
        for points in (pair.source_points, pair.target_points):
            assert (points >= -0.5).all() and (points < 63.5).all()
    assert counts == {1, 2}


def test_negatives_show_another_category():
    pairs = make_pairs(6, categories=2)
    category = {f"{n}{side}.png": n % 2 for n in range(6) for side in "ab"}
    plan = EpochPlan([6], 2, 0, seed=0)
    batches = Batches([pairs], plan, FakeStore(), AugmentConfig(), negatives=True)  # type: ignore[arg-type]
    for epoch in range(5):
        for _, batch in batches.epoch(epoch):
            assert len(batch.pairs) == batch.total == 4
            for positive, negative in zip(batch.pairs[:2], batch.pairs[2:], strict=True):
                assert category[positive.source.name] == category[positive.target.name]
                assert negative.source == positive.source
                assert category[negative.source.name] != category[negative.target.name]
                assert len(negative.source_points) == len(negative.target_points) == 0


def test_negatives_need_two_categories():
    plan = EpochPlan([3], 2, 0, seed=0)
    batches = Batches([make_pairs(3, 1)], plan, FakeStore(), AugmentConfig(), negatives=True)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="pairs of at least two categories; there is one"):
        list(batches.epoch(0))
