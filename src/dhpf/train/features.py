"""Backbone features on disk: computed once, in float16, memory-mapped, bounded, reused between runs.

The backbone is frozen, so a photo's blocks never change: about 13 MB for ResNet-50 at 240 x 240.

L layers  h, w one layer's grid  C its channels
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..data.pairs import Photo
from ..errors import InputError
from ..files import write_atomically
from ..model.backbone import ResNet
from ..model.hough import grid_cells
from .views import View

LARGEST = float(np.finfo(np.float16).max)
UNFINISHED = ".unfinished"  # the ending of a file that a process is writing
ABANDONED = 600.0  # seconds after which that process must have been killed


class StoredFeatures(NamedTuple):
    """What one photo's file holds, read as it is needed."""

    pooled: tuple[Tensor, ...]  # per layer (C,) float32: the block's average, for the gates
    blocks: tuple[NDArray[np.float16], ...]  # per layer (h, w, C)

    def block(self, layer: int) -> Tensor:
        """(h, w, C), in float32."""
        return torch.from_numpy(self.blocks[layer]).float()


class FeatureStore:
    """Features of photos as a frozen backbone sees them.

    Parameters
    ----------
    backbone, name
        The network, and the name of its weights, which becomes part of the files' names.
    size
        Width and height of the network's input.
    folder
        Where the files are; several processes and runs may share it.
    limit
        Bound on the bytes in the folder; the files that were used longest ago make room.
    """

    def __init__(
        self,
        backbone: ResNet,
        name: str,
        size: tuple[int, int],
        folder: Path,
        limit: int,
        device: str | torch.device = "cpu",
    ) -> None:
        self.backbone, self.name, self.size = backbone, name, size
        self.folder, self.limit, self.device = folder, limit, device
        self.bytes = _bytes(block_shapes(backbone, size))  # of a file
        self.computed = 0
        self._written = 0
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot make the feature folder {folder}: {error.strerror}") from None

    def get(self, photo: Photo, view: View) -> StoredFeatures:
        """From the folder, or computed and kept there."""
        path = self.folder / f"{self._key(photo, view)}.features"
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_size == self.bytes:  # else it is not whole, and is computed again
                os.utime(path)
                return self._unpack(np.memmap(path, np.uint8, "c"))
        content = self._compute(view.tensor(photo, self.size))
        if content.nbytes <= self.limit:
            self._make_room(content.nbytes)
            # Several processes may compute the same photo; each writes its own file, the last one stays.
            own = path.with_suffix(f".{os.getpid()}{UNFINISHED}")
            write_atomically(own, content.data, durable=False)
            own.replace(path)
            self._written += content.nbytes
        return self._unpack(content)

    @torch.no_grad()
    def _compute(self, image: Tensor) -> NDArray[np.uint8]:
        self.computed += 1
        blocks = [block[0] for block in self.backbone(image.to(self.device))]
        pooled = torch.cat([block.mean(dim=(1, 2)) for block in blocks]).cpu().numpy()
        flat = torch.cat([block.permute(1, 2, 0).reshape(-1) for block in blocks])
        features = flat.clamp(-LARGEST, LARGEST).half().cpu().numpy()
        return np.concatenate([pooled.view(np.uint8), features.view(np.uint8)])

    def _unpack(self, content: NDArray[np.uint8]) -> StoredFeatures:
        channels = self.backbone.channels
        split = 4 * sum(channels)
        pooled = torch.split(torch.from_numpy(content[:split].view(np.float32).copy()), list(channels))
        features = content[split:].view(np.float16)
        blocks, start = [], 0
        for shape in block_shapes(self.backbone, self.size):
            stop = start + int(np.prod(shape))
            blocks.append(features[start:stop].reshape(shape))
            start = stop
        return StoredFeatures(tuple(pooled), tuple(blocks))

    def _key(self, photo: Photo, view: View) -> str:
        status = photo.path.stat()
        known = photo.path.resolve(), status.st_size, status.st_mtime_ns, photo.appearance, view
        return hashlib.sha256(repr((*known, self.name, self.size)).encode()).hexdigest()[:32]

    def _make_room(self, needed: int) -> None:
        """Looks at the folder once in a while only: when what this process wrote since could matter."""
        if self._written and self._written + needed <= self.limit // 16:
            return
        self._written = 0
        files = []
        for path in [*self.folder.glob("*.features"), *self.folder.glob(f"*{UNFINISHED}")]:
            with contextlib.suppress(FileNotFoundError):  # another process made room
                status = path.stat()
                if path.suffix == ".features" or status.st_mtime < time.time() - ABANDONED:
                    files.append((status.st_mtime_ns, status.st_size, path))
        held = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if held + needed <= self.limit - self.limit // 16:
                break
            path.unlink(missing_ok=True)
            held -= size


def block_shapes(backbone: ResNet, size: tuple[int, int]) -> list[tuple[int, int, int]]:
    """(h, w, C) of every feature block, for an input of that width and height."""
    height, width = grid_cells(size[1]), grid_cells(size[0])
    shapes, previous = [], backbone.channels[1]
    for layer, channels in enumerate(backbone.channels):
        if layer > 0 and channels > previous:  # the next stage, of half the size
            height, width, previous = (height + 1) // 2, (width + 1) // 2, channels
        shapes.append((height, width, channels))
    return shapes


def _bytes(shapes: list[tuple[int, int, int]]) -> int:
    """Averages in float32, blocks in float16."""
    return sum(4 * channels + 2 * height * width * channels for height, width, channels in shapes)
