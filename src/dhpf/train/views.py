"""How training sees a photo: cut, recoloured, resized to the network's input; and where its points land."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageEnhance

from ..data.pairs import Photo
from ..images import to_input
from ..model.backbone import DEVIATION, MEAN
from .config import AugmentConfig

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class View:
    """One way to see a photo."""

    box: tuple[float, float, float, float] = (0.0, 0.0, 1.0, 1.0)  # left, top, right, bottom: what is kept
    brightness: float = 1.0
    contrast: float = 1.0
    saturation: float = 1.0

    def tensor(self, photo: Photo, size: tuple[int, int]) -> torch.Tensor:
        """The network's input, (1, 3, H, W), for ``size`` = width, height."""
        image = Image.fromarray(photo.image())
        if self != View():
            image = image.crop(self._pixels(photo))
            for kind, factor in (
                (ImageEnhance.Brightness, self.brightness),
                (ImageEnhance.Contrast, self.contrast),
                (ImageEnhance.Color, self.saturation),
            ):
                image = kind(image).enhance(factor)
        return to_input(image, size, MEAN, DEVIATION)

    def points(self, photo: Photo, size: tuple[int, int]) -> Floats:
        """The photo's points (K, 2) in pixels of the network's input; outside of it if they were cut off."""
        left, top, right, bottom = self._pixels(photo)
        scale = np.array(size) / (right - left, bottom - top)
        return (photo.points - (left, top)) * scale

    def _pixels(self, photo: Photo) -> tuple[int, int, int, int]:
        sides = np.array([*photo.size, *photo.size])
        left, top, right, bottom = np.rint(np.array(self.box) * sides).astype(int).tolist()
        return left, top, right, bottom


def random_view(augment: AugmentConfig, seed: int, photo: Photo, number: int) -> View:
    """The view of that number of a photo, the same in every run with this seed; number 0 is the plain one."""
    if number == 0:
        return View()
    name = f"{photo.path.name}|{photo.mirrored}|{number}|{seed}".encode()
    random = np.random.default_rng(list(hashlib.sha256(name).digest()[:16]))
    kept = 1 - augment.crop * random.random(2)
    left, top = random.random(2) * (1 - kept)
    factors = np.exp(random.uniform(-augment.colour, augment.colour, 3))
    width, height = kept.tolist()
    return View((float(left), float(top), float(left) + width, float(top) + height), *factors.tolist())
