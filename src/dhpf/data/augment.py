"""Random mirroring and swapping of training pairs."""

from __future__ import annotations

import numpy as np

from .pairs import Pair, PairDataset


class Augmented:
    """Training pairs, some of them mirrored, some in the other direction.

    What happens to a pair depends on the seed, the epoch and its position alone, so it is the same for any
    number of loader workers, and after a restart. Make a new one for each epoch: it costs nothing.

    Mirroring moves points, boxes, outlines and masks with the image. Both images of a pair are mirrored
    together, so that matching points still match. The target alone is mirrored only where points have names,
    which say what is a left and a right version of the same: then they are paired anew.

    Parameters
    ----------
    pairs
        What to augment.
    seed, epoch
        Where the randomness comes from.
    mirror, swap, mirror_target
        The probability of each.
    """

    def __init__(
        self,
        pairs: PairDataset,
        seed: int,
        epoch: int,
        mirror: float = 0.5,
        swap: float = 0.5,
        mirror_target: float = 0.0,
    ) -> None:
        self.pairs, self.seed, self.epoch = pairs, seed, epoch
        self.mirror, self.swap, self.mirror_target = mirror, swap, mirror_target

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> Pair:
        pair = self.pairs[index]
        mirror, swap, target = np.random.default_rng((self.seed, self.epoch, index)).random(3)
        if mirror < self.mirror:
            pair = pair.mirror()
        if target < self.mirror_target:
            pair = pair.mirror_target()
        return pair.swap() if swap < self.swap else pair
