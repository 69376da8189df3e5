"""Features of photos on the disc, in float16: computed once, reused by later runs with other references."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import torch
from PIL import Image

from ..backbones.base import Features
from ..files import make_folder, sha256, write_atomically
from ..matcher import ImageFeatures, Matcher
from ..train.sealed import as_features, as_tensors, seal, unseal
from .transfer import View, crop


class FeatureStore:
    """A folder of features; a file's name tells the photo's content, the part of it, and the matcher.

    Results are the same whether features were found or computed: they are rounded in both cases.
    """

    def __init__(self, matcher: Matcher, folder: Path) -> None:
        self.matcher, self.folder = matcher, folder
        self.computed = 0
        make_folder(folder)

    def get(self, view: View) -> ImageFeatures:
        """The features of a view; those of its mirror image come when they are needed."""
        matcher, image = self.matcher, crop(view)
        mirrored = cache(lambda: self._features(view, image, True)) if matcher.flip == "auto" else None
        features = self._features(view, image, False)
        return ImageFeatures(image, features, matcher.fingerprint, str(matcher.device), mirrored)

    def _features(self, view: View, image: Image.Image, mirrored: bool) -> Features:
        """From the folder, or computed and kept there."""
        matcher = self.matcher
        known = sha256(view.path), view.region, mirrored, matcher.fingerprint
        key = hashlib.sha256(repr(known).encode()).hexdigest()[:32]
        path = self.folder / f"{key}.safetensors"
        found = unseal(path)
        if found is not None and found[1] == key:
            tensors = found[0]
        else:
            self.computed += 1
            tensors = as_tensors(matcher.see(image, mirrored))
            write_atomically(path, seal(tensors, key), durable=False)
        features = as_features(tensors, matcher.method.backbone.grid(matcher.size))
        return features.to(matcher.device, torch.float32)
