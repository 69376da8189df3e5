"""Anything a user calls an image -> an upright RGB photo, or an error that says what is wrong."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from .errors import InputError

ImageLike: TypeAlias = "str | os.PathLike[str] | Image.Image | NDArray[Any] | torch.Tensor"

SMALLEST_SIDE = 8  # pixels; less than that has nothing to match
MOST_PIXELS = 64_000_000

MEAN = (0.485, 0.456, 0.406)
DEVIATION = (0.229, 0.224, 0.225)


def read_image(image: ImageLike, name: str = "image") -> Image.Image:
    """Read a photo as upright 8-bit RGB.

    Parameters
    ----------
    image
        A path; a PIL image; an array (H, W), (H, W, 1), (H, W, 3) or (H, W, 4); or a tensor (H, W),
        (1, H, W), (3, H, W) or (4, H, W). Arrays and tensors hold 8-bit or 16-bit integers, or floats in
        [0, 1].
    name
        What to call it in errors, where it is not a file.
    """
    if isinstance(image, (str, os.PathLike)):
        return _read_file(Path(image))
    if isinstance(image, torch.Tensor):
        image = image.detach().cpu()
        return _from_array((image.permute(1, 2, 0) if image.ndim == 3 else image).numpy(), name)
    if isinstance(image, np.ndarray):
        return _from_array(image, name)
    if isinstance(image, Image.Image):
        _check_size(image.size, name)
        return _upright_rgb(image, name)
    raise InputError(f"{name} is a {type(image).__name__}; give a path, PIL image, NumPy array or tensor")


def to_input(photo: Image.Image, size: tuple[int, int]) -> torch.Tensor:
    """Resize an RGB photo to ``size`` (width, height) and normalise: (1, 3, height, width), float32."""
    resized = np.asarray(photo.resize(size, Image.Resampling.BILINEAR), np.float32) / 255
    normalised = (resized - np.array(MEAN, np.float32)) / np.array(DEVIATION, np.float32)
    return torch.from_numpy(normalised).permute(2, 0, 1)[None]


def _read_file(path: Path) -> Image.Image:
    if not path.exists():
        raise InputError(f"no such image: {path}")
    if path.is_dir():
        raise InputError(f"{path} is a folder; give an image file")
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty; give an image file")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # our own limit is lower
            opened = Image.open(path)
        with opened:
            _check_size(opened.size, str(path))
            return _upright_rgb(opened, str(path))
    except UnidentifiedImageError:
        raise InputError(f"{path} is not an image that can be read; JPEG, PNG, WebP, TIFF ... are") from None
    except Image.DecompressionBombError:
        raise InputError(f"{path} is too large: at most {MOST_PIXELS:,} pixels; make it smaller first") from None
    except PermissionError:
        raise InputError(f"{path} cannot be read: permission denied") from None


def _check_size(size: tuple[int, int], name: str) -> None:
    width, height = size
    if width * height > MOST_PIXELS:
        raise InputError(
            f"{name} is too large: {width} x {height}, at most {MOST_PIXELS:,} pixels; make it smaller first"
        )
    if min(size) < SMALLEST_SIDE:
        raise InputError(f"{name} is too small: {width} x {height}, at least {SMALLEST_SIDE} pixels a side")


def _upright_rgb(image: Image.Image, name: str) -> Image.Image:
    try:
        image.load()
    except (OSError, SyntaxError, ValueError, EOFError) as error:  # what decoders raise on damaged data
        raise InputError(f"{name} is damaged or cut off ({error}); get a fresh copy") from None
    image = ImageOps.exif_transpose(image)
    if image.mode == "F":  # a float file has no agreed range: stretch it over 0 .. 1
        values = np.asarray(image)
        low, high = float(values.min()), float(values.max())
        return _from_array((values - low) / (high - low) if high > low else values * 0, name)
    if image.mode.startswith("I"):  # 16-bit or 32-bit greyscale
        return _from_array(np.asarray(image), name)
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        clear = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(clear, image.convert("RGBA"))
    return image.convert("RGB")


def _from_array(array: NDArray[Any], name: str) -> Image.Image:
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if not (array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))):
        raise InputError(f"{name} has shape {array.shape}; wanted (H, W), (H, W, 3) or (H, W, 4)")
    _check_size((array.shape[1], array.shape[0]), name)
    if array.dtype == np.bool_:
        array = array.astype(np.uint8) * 255
    elif np.issubdtype(array.dtype, np.floating):
        if not np.isfinite(array).all():
            raise InputError(f"{name} holds NaN or infinity; wanted floats in [0, 1]")
        if array.min() < 0 or array.max() > 1:
            raise InputError(
                f"{name} holds floats from {array.min():.3g} to {array.max():.3g}; wanted [0, 1]"
            )
        array = np.rint(array * 255).astype(np.uint8)
    elif array.dtype != np.uint8:
        if array.min() < 0 or array.max() > 65535:
            raise InputError(f"{name} holds values from {array.min()} to {array.max()}; wanted 8 or 16 bits")
        sixteen_bits = array.dtype == np.uint16 or array.max() > 255
        array = np.rint(array / 257 if sixteen_bits else array).astype(np.uint8)
    return _upright_rgb(Image.fromarray(array), name)
