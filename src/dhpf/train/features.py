"""Backbone features on disk: computed once, in float16, memory-mapped, bounded, reused between runs.

The backbone is frozen, so the blocks of an image never change: about 13 MB for ResNet-50 at 240 x 240. A file
knows its checksum and whose features it holds; what does not fit is computed again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from ..backbones.base import Backbone, Features, extract
from ..data.pairs import Photo
from ..files import make_folder, real_path, sha256, write_atomically
from ..grid import Size
from .augmentation import Augmentation
from .sealed import as_features, as_tensors, seal, unseal

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
    layers
        Of the backbone that are kept; all by default. A file that holds all layers serves as well.
    """

    def __init__(
        self,
        backbone: Backbone,
        name: str,
        size: Size,
        folder: Path,
        limit: int,
        layers: Sequence[int] | None = None,
    ) -> None:
        self.backbone, self.size, self.folder, self.limit = backbone, size, folder, limit
        every = range(len(backbone.channels))
        self.layers = tuple(every if layers is None else layers)
        self.names = [name] if self.layers == tuple(every) else [f"{name} {self.layers}", name]
        self.computed = 0
        self._written = 0
        self._sound: set[tuple[str, int]] = set()  # what was seen to fit: key, time of the file
        self._content: dict[tuple[Path, int, int], str] = {}  # checksums of photos that are read already
        make_folder(folder)

    def get(self, photo: Photo, augmentation: Augmentation) -> Features:
        """From the folder, or computed and kept there; on the CPU, blocks in float16."""
        keys = [self._key(photo, augmentation, name) for name in self.names]
        kinds = ("block", "pooled", *(["tokens"] if self.backbone.has_tokens else []))
        wanted = {f"{kind}.{layer}" for layer in self.layers for kind in kinds}
        tensors = next((held for held in map(self._read, keys) if held and wanted <= held.keys()), None)
        if tensors is None:
            tensors = self._compute(photo, augmentation)
            self._keep(self._path(keys[0]), seal(tensors, keys[0]))
        held = {name: tensor for name, tensor in tensors.items() if name in wanted}
        return as_features(held, self.backbone.grid(self.size))

    def _compute(self, photo: Photo, augmentation: Augmentation) -> dict[str, Tensor]:
        self.computed += 1
        image = augmentation.tensor(photo, self.size, self.backbone.mean, self.backbone.std)
        return as_tensors(extract(self.backbone, image[0], self.layers))

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.safetensors"

    def _read(self, key: str) -> dict[str, Tensor] | None:
        """What a file holds; None if there is none, it is damaged or another's."""
        path = self._path(key)
        try:
            found = unseal(path, checked=(key, path.stat().st_mtime_ns) in self._sound)
            if found is None or found[1] != key:
                return None
            os.utime(path)  # it was used
            self._sound.add((key, path.stat().st_mtime_ns))
        except OSError:
            return None
        return found[0]

    def _keep(self, path: Path, content: bytes) -> None:
        if len(content) <= self.limit:
            self._make_room(len(content))
            write_atomically(path, content, durable=False)
            self._written += len(content)

    def _key(self, photo: Photo, augmentation: Augmentation, name: str) -> str:
        """By content: a copy or a fresh download of a photo has the features of the first."""
        status = photo.path.stat()
        file = real_path(photo.path), status.st_size, status.st_mtime_ns
        if file not in self._content:
            self._content[file] = sha256(photo.path)
        known = self._content[file], photo.appearance, augmentation, name, self.size
        return hashlib.sha256(repr(known).encode()).hexdigest()[:32]

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
