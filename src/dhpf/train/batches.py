"""Pairs and an epoch's number -> batches of what a step needs. Nothing depends on the number of processes.

K points
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..backbones.base import Features
from ..data.augment import Augmented
from ..data.pairs import Pair, PairDataset, Photo
from ..errors import InputError
from ..methods.base import Batch, TrainingPair
from .augmentation import Augmentation, random_augmentation
from .config import AugmentConfig
from .features import FeatureStore
from .groups import ImageGroups
from .masks import mask_on_grid


class Position(NamedTuple):
    """A batch of a run: the epoch, the step in it, and the whole batch over all processes."""

    epoch: int
    step: int
    indices: tuple[tuple[int, int], ...]  # (data set, pair)


class EpochPlan:
    """Which pairs come in which order; the same for any number of processes, and after a restart."""

    def __init__(
        self,
        sizes: Sequence[int],
        batch: int,
        per_epoch: int,
        seed: int,
        groups: Sequence[ImageGroups] | None = None,
    ) -> None:
        self.sizes, self.per_epoch, self.seed = tuple(sizes), per_epoch, seed
        self.groups = groups  # of each data set, to be drawn instead of single pairs
        drawn = sum(min(size, per_epoch or size) for size in sizes)
        self.batch = min(batch, drawn)
        self.steps = drawn // self.batch  # what is left over comes first another time

    def generator(self, position: Position) -> torch.Generator:
        """The source of a step's random numbers."""
        seed = np.random.SeedSequence((self.seed, position.epoch, position.step)).generate_state(1)
        return torch.Generator().manual_seed(int(seed[0]))

    def batches(self, epoch: int, start: int = 0) -> Iterator[Position]:
        """The batches of an epoch from step ``start`` on."""
        random = np.random.default_rng((self.seed, epoch))
        drawn = [
            [(source, int(pair)) for pair in group]
            for source, size in enumerate(self.sizes)
            for group in self._groups(source, min(size, self.per_epoch or size), random)
        ]
        order = [index for k in random.permutation(len(drawn)) for index in drawn[k]]
        for step in range(start, self.steps):
            yield Position(epoch, step, tuple(order[step * self.batch : (step + 1) * self.batch]))

    def _groups(self, source: int, count: int, random: np.random.Generator) -> Sequence[Sequence[int]]:
        if self.groups is None:
            return [[pair] for pair in random.permutation(self.sizes[source])[:count]]
        return self.groups[source].draw(count, random)


class Batches:
    """Reads this process's share of the batches, one batch ahead.

    Parameters
    ----------
    sources
        The training pairs of each data set.
    rank, world_size
        The number of this process, and how many there are.
    """

    def __init__(
        self,
        sources: Sequence[PairDataset],
        plan: EpochPlan,
        store: FeatureStore,
        augment: AugmentConfig,
        *,
        negatives: bool,
        masks: bool = False,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        self.sources, self.plan, self.store, self.augment = sources, plan, store, augment
        self.negatives, self.masks, self.rank, self.world_size = negatives, masks, rank, world_size

    def epoch(self, epoch: int, start: int = 0) -> Iterator[tuple[Position, Batch]]:
        """Batches from step ``start`` on."""
        augment = self.augment
        pairs = [
            Augmented(
                source, self.plan.seed + number, epoch, augment.mirror, augment.swap, augment.mirror_target
            )
            for number, source in enumerate(self.sources)
        ]
        with ThreadPoolExecutor(1) as ahead:
            waiting = None
            for position in self.plan.batches(epoch, start):
                following = ahead.submit(self._read, pairs, position)
                if waiting is not None:
                    yield waiting.result()
                waiting = following
            if waiting is not None:
                yield waiting.result()

    def _read(self, sources: Sequence[Augmented], position: Position) -> tuple[Position, Batch]:
        """This process's pairs of a batch; with negatives, as many of different categories after them."""
        pairs = [sources[source][index] for source, index in position.indices]
        mine = own_share(len(pairs), self.rank, self.world_size)
        chosen = [pairs[number] for number in mine]
        if self.negatives:
            chosen += [self._negative(pairs, number, sources, position) for number in mine]
        random = np.random.default_rng((self.plan.seed, position.epoch, position.step))
        drawn = random.integers(self.augment.augmentations, size=(2, len(pairs), 2))  # positive and negative
        numbers = [*drawn[0, mine.start : mine.stop], *drawn[1, mine.start : mine.stop]]
        seen: dict[object, Features] = {}  # an image of several pairs is read once, and transformed once
        taken = [self._pair(pair, (a, b), seen) for pair, (a, b) in zip(chosen, numbers, strict=False)]
        slots, count = [*mine], len(pairs)
        if self.negatives:
            slots, count = [*slots, *(count + slot for slot in slots)], 2 * count
        masks = (
            [self._masks(pair, *n) for pair, n in zip(chosen, numbers, strict=False)] if self.masks else ()
        )
        generator = self.plan.generator(position)
        return position, Batch(taken, slots, count, generator, self.world_size, masks)

    def _negative(
        self, pairs: Sequence[Pair], number: int, sources: Sequence[Augmented], position: Position
    ) -> Pair:
        """The source with the target of the next pair of another category, in the batch or in the list."""
        own = pairs[number]
        following = [*pairs[number + 1 :], *pairs[:number]]
        other = next((pair for pair in following if pair.category != own.category), None)
        source, index = position.indices[number]
        while other is None:
            index = (index + 1) % len(sources[source])
            if index == position.indices[number][1]:
                raise InputError("the weak objective needs pairs of at least two categories; there is one")
            pair = sources[source][index]
            other = pair if pair.category != own.category else None
        none = np.zeros((0, 2))
        return replace(
            own, source=replace(own.source, points=none), target=replace(other.target, points=none)
        )

    def _pair(self, pair: Pair, numbers: tuple[int, int], seen: dict[object, Features]) -> TrainingPair:
        size = self.store.size
        a = random_augmentation(self.augment, self.plan.seed, pair.source, numbers[0])
        b = random_augmentation(self.augment, self.plan.seed, pair.target, numbers[1])
        points = np.stack([a.points(pair.source, size), b.points(pair.target, size)])  # (2, K, 2)
        inside = np.flatnonzero(((points >= -0.5) & (points < np.array(size) - 0.5)).all(axis=(0, 2)))
        if not len(inside):  # all were cut off: the nearest cells at the edge are better than nothing
            inside = np.arange(points.shape[1])
        source, target = torch.from_numpy(points[:, inside]).float()
        return TrainingPair(
            self._features(pair.source, a, seen), self._features(pair.target, b, seen), source, target
        )

    def _features(self, photo: Photo, augmentation: Augmentation, seen: dict[object, Features]) -> Features:
        key = photo.path, photo.appearance, augmentation
        if key not in seen:
            seen[key] = self.store.get(photo, augmentation)
        return seen[key]

    def _masks(self, pair: Pair, *numbers: int) -> tuple[Tensor, Tensor]:
        grid = self.store.backbone.grid(self.store.size)
        source, target = (
            mask_on_grid(
                photo, random_augmentation(self.augment, self.plan.seed, photo, number), self.store.size, grid
            )
            for photo, number in zip((pair.source, pair.target), numbers, strict=True)
        )
        return source, target


def own_share(count: int, rank: int, world_size: int) -> range:
    """The positions of a batch that belong to one process."""
    return range(count * rank // world_size, count * (rank + 1) // world_size)
