"""Features of photos on the disc, in float16: computed once, reused by later runs with other references."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InputError
from ..files import sha256, write_atomically
from .transfer import View, crop, see

if TYPE_CHECKING:
    from PIL import Image
    from torch import Tensor

    from ..matcher import ImageFeatures, Matcher

LARGEST = float(np.finfo(np.float16).max)


class FeatureStore:
    """A folder of features; a file's name tells the photo's content, the part of it, and the matcher.

    Results are the same whether features were found or computed: they are rounded in both cases.
    """

    def __init__(self, matcher: Matcher, folder: Path) -> None:
        self.matcher, self.folder = matcher, folder
        self.computed = 0
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot make the folder {folder}: {error.strerror}") from None

    def get(self, view: View) -> ImageFeatures:
        """The features of a view."""
        from ..train.sealed import seal, unseal

        known = sha256(view.path) if view.path.is_file() else "", view.region, self.matcher.fingerprint
        key = hashlib.sha256(repr(known).encode()).hexdigest()[:32]
        path = self.folder / f"{key}.safetensors"
        found = unseal(path) if path.is_file() else None
        if found is not None and found[1] == key:
            return self._restored(crop(view), found[0])
        seen = see(self.matcher, view)
        self.computed += 1
        blocks = {f"block.{n}": b.clamp(-LARGEST, LARGEST).half() for n, b in seen.features.blocks.items()}
        pooled = {f"pooled.{n}": p for n, p in seen.features.pooled.items()}
        tensors = {name: tensor.cpu().contiguous() for name, tensor in (blocks | pooled).items()}
        write_atomically(path, seal(tensors, key), durable=False)
        return self._restored(seen.image, tensors)

    def _restored(self, image: Image.Image, tensors: dict[str, Tensor]) -> ImageFeatures:
        from ..backbones.base import Features
        from ..matcher import ImageFeatures

        matcher = self.matcher
        found: dict[str, dict[int, Tensor]] = {"block": {}, "pooled": {}}
        for name, tensor in tensors.items():
            kind, _, layer = name.partition(".")
            found[kind][int(layer)] = tensor.float().to(matcher.device)
        layers = sorted(found["block"])
        blocks, pooled = ({layer: found[kind][layer] for layer in layers} for kind in ("block", "pooled"))
        features = Features(blocks, pooled, matcher.method.backbone.grid(matcher.size))
        return ImageFeatures(image, features, matcher.fingerprint, str(matcher.device))
