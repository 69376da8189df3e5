"""Backbone features on disk: computed once, in float16, memory-mapped, bounded, reused between runs.

The backbone is frozen, so the blocks of an image never change: about 13 MB for ResNet-50 at 240 x 240. A file
knows its checksum; what does not fit is computed again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
import zlib
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from ..backbones.base import Backbone, Features, extract
from ..data.pairs import Photo
from ..errors import InputError
from ..files import write_atomically
from ..grid import Size
from .augmentation import Augmentation

LARGEST = float(np.finfo(np.float16).max)
ENDING = ".safetensors"
ABANDONED = 600.0  # seconds after which whoever wrote an unfinished file must have been killed


class FeatureStore:
    """Features of images as a frozen backbone sees them.

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

    def __init__(self, backbone: Backbone, name: str, size: Size, folder: Path, limit: int) -> None:
        self.backbone, self.name, self.size, self.folder, self.limit = backbone, name, size, folder, limit
        self.computed = 0
        self._written = 0
        self._sound: set[tuple[str, int]] = set()  # files whose checksum was seen to fit, and when they were written
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot make the feature folder {folder}: {error.strerror}") from None

    def get(self, photo: Photo, augmentation: Augmentation) -> Features:
        """From the folder, or computed and kept there; on the CPU, blocks in float16."""
        path = self.folder / f"{self._key(photo, augmentation)}{ENDING}"
        found = self._read(path)
        if found is not None:
            return found
        self.computed += 1
        image = augmentation.tensor(photo, self.size, self.backbone.mean, self.backbone.std)
        features = extract(self.backbone, image[0])
        blocks = {
            n: block.clamp(-LARGEST, LARGEST).half().cpu().contiguous() for n, block in features.blocks.items()
        }
        features = Features(blocks, {n: p.cpu() for n, p in features.pooled.items()}, features.grid)
        content = _packed(features)
        if len(content) <= self.limit:
            self._make_room(len(content))
            write_atomically(path, lambda place: place.write_bytes(content))
            self._written += len(content)
        return features

    def _read(self, path: Path) -> Features | None:
        """What a file holds; None if there is none, or it is damaged."""
        try:
            written = path.stat().st_mtime_ns
            with safe_open(path, "pt") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a mapping
            if (path.name, written) not in self._sound and metadata.get("checksum") != _checksum(tensors):
                return None
            os.utime(path)
            self._sound.add((path.name, path.stat().st_mtime_ns))
        except (OSError, SafetensorError):
            return None
        parts: dict[str, dict[int, Tensor]] = {"block": {}, "pooled": {}}
        for name, tensor in tensors.items():
            kind, _, layer = name.partition(".")
            parts[kind][int(layer)] = tensor
        blocks, pooled = (dict(sorted(part.items())) for part in parts.values())
        return Features(blocks, pooled, self.backbone.grid(self.size))

    def _key(self, photo: Photo, augmentation: Augmentation) -> str:
        status = photo.path.stat()
        known = photo.path.resolve(), status.st_size, status.st_mtime_ns, photo.appearance, augmentation
        return hashlib.sha256(repr((*known, self.name, self.size)).encode()).hexdigest()[:32]

    def _make_room(self, needed: int) -> None:
        """Looks at the folder once in a while only: when what this process wrote since could matter."""
        if self._written and self._written + needed <= self.limit // 16:
            return
        self._written = 0
        files = []
        for path in self.folder.iterdir():
            with contextlib.suppress(FileNotFoundError):  # another process made room
                status = path.stat()
                if not path.name.startswith(".") or status.st_mtime < time.time() - ABANDONED:
                    files.append((status.st_mtime_ns, status.st_size, path))
        held = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if held + needed <= self.limit - self.limit // 16:
                break
            path.unlink(missing_ok=True)
            held -= size


def _packed(features: Features) -> bytes:
    tensors = {f"block.{n}": block for n, block in features.blocks.items()}
    tensors |= {f"pooled.{n}": pooled for n, pooled in features.pooled.items()}
    return save(tensors, {"checksum": _checksum(tensors)})


def _checksum(tensors: dict[str, Tensor]) -> str:
    """Of all values, with their names."""
    sums = {name: zlib.crc32(tensor.view(torch.uint8).numpy()) for name, tensor in tensors.items()}  # type: ignore[arg-type]
    return json.dumps(sums, sort_keys=True)
