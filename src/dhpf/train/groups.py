"""Pairs among a few images: a step that takes all of them transforms each image once, not once for a pair."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

TRIES = 20  # to find an image that is not in the group yet


class ImageGroups:
    """The pairs of a data set as edges between its images.

    Parameters
    ----------
    ends
        Both images of each pair.
    images
        How many a group has; fewer where no more are connected.
    """

    def __init__(self, ends: Sequence[tuple[Path, Path]], images: int) -> None:
        self.ends, self.images = ends, images
        self.pairs_of: dict[Path, list[int]] = defaultdict(list)
        for pair, both in enumerate(ends):
            for image in set(both):
                self.pairs_of[image].append(pair)

    def draw(self, count: int, random: np.random.Generator) -> list[list[int]]:
        """Groups of pairs, that many pairs in all; a pair may come again."""
        groups: list[list[int]] = []
        while count > 0:
            groups.append(self._group(random)[:count])
            count -= len(groups[-1])
        return groups

    def _group(self, random: np.random.Generator) -> list[int]:
        """Begins with any pair and walks along pairs to further images; then all pairs among them."""
        chosen = [*self.ends[int(random.integers(len(self.ends)))]]
        for _ in range(TRIES):
            if len(chosen) >= self.images:
                break
            pairs = self.pairs_of[chosen[int(random.integers(len(chosen)))]]
            chosen += [end for end in self.ends[pairs[int(random.integers(len(pairs)))]] if end not in chosen]
        among = {pair for image in chosen for pair in self.pairs_of[image] if {*self.ends[pair]} <= {*chosen}}
        return [int(pair) for pair in random.permutation(sorted(among))]
