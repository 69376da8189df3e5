"""``python -m tests.train.double RECIPE OUT FEATURES``: train in float64, alone or under torchrun.

What two processes add up in another order than one differs in the last bits. In float32 a few steps make of
that what a test could not tell from a mistake; in float64 they cannot.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from dhpf.backbones.base import Features
from dhpf.data.pairs import Photo
from dhpf.processes import leave
from dhpf.train import loop
from dhpf.train.augmentation import Augmentation
from dhpf.train.features import FeatureStore
from dhpf.train.recipe import read_recipe


class DoubleStore(FeatureStore):
    """Stored features, in float64; the backbone computes them in float32 as ever."""

    def get(self, photo: Photo, augmentation: Augmentation) -> Features:
        found = super().get(photo, augmentation)
        blocks, pooled = ({n: t.double() for n, t in part.items()} for part in (found.blocks, found.pooled))
        return Features(blocks, pooled, found.grid)


def main() -> None:
    recipe, out, features = map(Path, sys.argv[1:])
    torch.set_default_dtype(torch.float64)
    loop.FeatureStore = DoubleStore  # type: ignore[misc]
    loop.train(read_recipe(recipe), out, features=features)
    leave()


if __name__ == "__main__":
    main()
