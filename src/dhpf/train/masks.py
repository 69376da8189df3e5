"""Which cells of an image show the object: from a mask where there is one, else from a box.

K points  H, W pixels of the original image, or cells of a grid
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..data.pairs import Annotation, Photo
from ..errors import InputError
from ..grid import Grid, Size
from .augmentation import Augmentation

MARGIN = 0.1  # an object reaches so far beyond its keypoints on each side, in sides of their box


def shows_objects(annotation: Annotation) -> bool:
    """Whether it says where the objects of both images are."""
    return all(
        labels.class_map is not None
        or labels.polygon is not None
        or labels.box is not None
        or len(labels.points) > 1
        for labels in (annotation.source, annotation.target)
    )


def object_mask(photo: Photo) -> NDArray[np.bool_]:
    """The object's pixels (H, W): its mask, or its box, or the box of its keypoints with a margin."""
    mask = photo.mask
    if mask is not None and mask.any():
        return mask
    if photo.box is not None:
        left, top, right, bottom = photo.box
    elif len(photo.points) > 1:
        low, high = photo.points.min(0), photo.points.max(0)
        margin = MARGIN * (high - low)
        (left, top), (right, bottom) = low - margin, high + margin
    else:
        raise InputError(f"{photo.path} has no mask, box or keypoints, which this objective needs")
    y, x = np.ogrid[: photo.size[1], : photo.size[0]]
    inside: NDArray[np.bool_] = (left <= x) & (x <= right) & (top <= y) & (y <= bottom)
    return inside


def mask_on_grid(photo: Photo, augmentation: Augmentation, size: Size, grid: Grid) -> Tensor:
    """1 where a cell's centre lies on the object, (H, W) of the grid; ``size`` is the network's input."""
    pixels = augmentation.in_photo(grid.centres(), photo, size)
    x, y = np.rint(pixels).astype(int).transpose(2, 0, 1)
    width, height = photo.size
    mask = object_mask(photo)[y.clip(0, height - 1), x.clip(0, width - 1)]
    return torch.from_numpy(mask).float()
