"""``python -m tests.train.double RECIPE OUT FEATURES``: train in float64, alone or under torchrun.

What two processes add up in another order than one differs in the last bits. In float32 a few steps make of
that what a test could not tell from a mistake; in float64 they cannot.
"""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import torch

from dhpf.backbones.base import Backbone, Features
from dhpf.data.pairs import Photo
from dhpf.processes import leave
from dhpf.train import loop
from dhpf.train.augmentation import Augmentation
from dhpf.train.features import FeatureStore
from dhpf.train.recipe import read_recipe


class DoubleStore(FeatureStore):
    """Stored features, in float64; the backbone computes them in float32 as ever, and low-rank updates of it
    in float64."""

    def __init__(self, backbone: Backbone, *args: Any) -> None:
        super().__init__(copy.deepcopy(backbone), *args)
        backbone.double()

    def get(self, photo: Photo, augmentation: Augmentation) -> Features:
        found = super().get(photo, augmentation)
        blocks, pooled, tokens = (
            {n: t.double() for n, t in part.items()} for part in (found.blocks, found.pooled, found.tokens)
        )
        return Features(blocks, pooled, found.grid, tokens=tokens)


def main() -> None:
    recipe, out, features = map(Path, sys.argv[1:])
    torch.set_default_dtype(torch.float64)
    loop.FeatureStore = DoubleStore  # type: ignore[misc]
    loop.train(read_recipe(recipe), out, features=features)
    leave()


if __name__ == "__main__":
    main()
