"""The feature blocks of many images in a file, so that each image goes through the backbone once.

Blocks are kept in half precision: 13 MB an image for ResNet-50 at 240 x 240. Rounding them changes the best
match of about one cell in 6,000.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from math import prod
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..data.pairs import Photo
from ..errors import InputError
from ..matcher import Matcher
from ..progress import shown


class BlockFile:
    """All blocks that the matcher's network may choose, of some images.

    Parameters
    ----------
    folder
        Where the file is put; it has no name there and ends with the process.
    pool
        Computes images side by side.
    """

    def __init__(
        self, matcher: Matcher, photos: Sequence[Photo], folder: Path, pool: ThreadPoolExecutor
    ) -> None:
        one = matcher.features(photos[0].image(), str(photos[0].path)).features
        self.grid, self.size = one.grid, one.size
        self._shapes = [tuple(block.shape[1:]) for block in one.blocks.values()]
        self._ends = list(accumulate(map(prod, self._shapes)))
        self._row = {_key(photo): row for row, photo in enumerate(photos)}
        shape = len(photos), self._ends[-1]
        needed, free = prod(shape) * 2, shutil.disk_usage(folder).free
        if needed > free:
            raise InputError(
                f"{folder}: the features of {len(photos)} images need {needed / 1e9:.1f} GB, and "
                f"{free / 1e9:.1f} GB are free; set DHPF_HOME to a folder with more room"
            )
        with tempfile.TemporaryFile(dir=folder) as stream:
            self._values = np.memmap(stream, np.float16, mode="w+", shape=shape)

        def compute(photo: Photo) -> None:
            blocks = matcher.features(photo.image(), str(photo.path)).features.blocks.values()
            self._values[self._row[_key(photo)]] = (
                torch.cat([block.flatten() for block in blocks]).cpu().numpy()
            )

        for _ in shown(pool.map(compute, photos), "computing features", len(photos)):
            pass

    def __len__(self) -> int:
        """Blocks of each image."""
        return len(self._shapes)

    def blocks(self, photo: Photo) -> list[Tensor]:
        """The blocks of one image, each (C, h, w), in the order of the network."""
        values = torch.from_numpy(self._values[self._row[_key(photo)]].astype(np.float32))
        parts = values.tensor_split(self._ends[:-1])
        return [part.view(shape) for part, shape in zip(parts, self._shapes, strict=True)]


def _key(photo: Photo) -> tuple[Path, bool]:
    return photo.path, photo.mirrored
