"""Augmentation: an image cropped, recoloured, resized to the network's input; and where its points land."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image, ImageEnhance

from ..data.pairs import Photo
from ..grid import Points, Size, resize_points
from ..images import to_input
from .config import AugmentConfig

Channels = tuple[float, float, float]  # a value for each of red, green and blue


@dataclass(frozen=True)
class Augmentation:
    """One augmentation of an image."""

    box: tuple[float, float, float, float] = (0.0, 0.0, 1.0, 1.0)  # left, top, right, bottom: what is kept
    brightness: float = 1.0
    contrast: float = 1.0
    saturation: float = 1.0

    def tensor(self, photo: Photo, size: Size, mean: Channels, std: Channels) -> torch.Tensor:
        """The network's input, (1, 3, H, W), for ``size`` = width, height."""
        image = Image.fromarray(photo.image())
        if self != Augmentation():
            image = image.crop(self._pixels(photo))
            for kind, factor in (
                (ImageEnhance.Brightness, self.brightness),
                (ImageEnhance.Contrast, self.contrast),
                (ImageEnhance.Color, self.saturation),
            ):
                image = kind(image).enhance(factor)
        return to_input(image, size, mean, std)

    def points(self, photo: Photo, size: Size) -> Points:
        """The photo's points (K, 2) in pixels of the network's input; outside of it if they were cut off."""
        left, top, right, bottom = self._pixels(photo)
        return resize_points(photo.points - (left, top), (right - left, bottom - top), size)

    def in_photo(self, points: Points, photo: Photo, size: Size) -> Points:
        """Where points (..., 2) of the network's input lie in the photo."""
        left, top, right, bottom = self._pixels(photo)
        return np.array([left, top]) + resize_points(points, size, (right - left, bottom - top))

    def _pixels(self, photo: Photo) -> tuple[int, int, int, int]:
        sides = np.array([*photo.size, *photo.size])
        left, top, right, bottom = np.rint(np.array(self.box) * sides).astype(int).tolist()
        return left, top, right, bottom


def random_augmentation(augment: AugmentConfig, seed: int, photo: Photo, number: int) -> Augmentation:
    """The augmentation of that number, the same in all runs with this seed; 0 is the image as it is."""
    if number == 0:
        return Augmentation()
    name = f"{photo.path.name}|{photo.mirrored}|{number}|{seed}".encode()
    random = np.random.default_rng(list(hashlib.sha256(name).digest()[:16]))
    kept = 1 - augment.crop * random.random(2)
    start = random.random(2) * (1 - kept)
    left, top, right, bottom = np.concatenate([start, start + kept]).tolist()
    factors = np.exp(random.uniform(-augment.colour, augment.colour, 3))
    return Augmentation((left, top, right, bottom), *factors.tolist())
