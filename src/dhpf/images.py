"""Anything a user calls an image -> an upright RGB photo, or an error that says what is wrong."""

from __future__ import annotations

import io
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, UnidentifiedImageError

from .errors import InputError

if TYPE_CHECKING:
    import torch

ImageLike: TypeAlias = "str | os.PathLike[str] | Image.Image | NDArray[Any] | torch.Tensor"

FORMATS = ("JPEG", "PNG", "WEBP", "AVIF", "GIF", "BMP", "TIFF", "PPM")  # decoders fit for strangers' files
SMALLEST_SIDE = 8  # pixels; less than that has nothing to match
MOST_PIXELS = 64_000_000
SLACK = 1e-3  # floats may stray from [0, 1] by as much, which resampling does to them

TURNS = {  # how to undo each EXIF orientation
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

MEAN = (0.485, 0.456, 0.406)
DEVIATION = (0.229, 0.224, 0.225)


def read_image(image: ImageLike, name: str = "image") -> Image.Image:
    """Read a photo as upright 8-bit RGB; what is transparent becomes white.

    Parameters
    ----------
    image
        A path; a PIL image; an array (H, W), (H, W, 1), (H, W, 3) or (H, W, 4); or a tensor (H, W),
        (1, H, W), (3, H, W) or (4, H, W). Arrays and tensors hold booleans, 8-bit or 16-bit integers, or
        floats in [0, 1].
    name
        What to call it in errors, where it is not a file.
    """
    if isinstance(image, (str, os.PathLike)):
        return _read_file(Path(image))
    if isinstance(image, np.ndarray):
        return _from_array(image, name)
    if isinstance(image, Image.Image):
        _check_size(image.size, name)
        return _upright_rgb(image, name)
    torch = sys.modules.get("torch")  # a bad path need not wait for its import
    if torch is not None and isinstance(image, torch.Tensor):
        return _from_tensor(image, name)
    raise InputError(f"{name} is a {type(image).__name__}; give a path, PIL image, NumPy array or tensor")


def decode_image(content: bytes, name: str) -> Image.Image:
    """Read an image from the bytes of a file, as :func:`read_image` does from the file."""
    if not content:
        raise InputError(f"{name} is empty; give an image file")
    Image.init()
    formats = [kind for kind in FORMATS if kind in Image.OPEN]  # not every Pillow has them all
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # our own limit on the size is lower, and other oddities are harmless
        try:
            with Image.open(io.BytesIO(content), formats=formats) as opened:
                return read_image(opened, name)
        except InputError:
            raise
        except Image.DecompressionBombError:
            raise InputError(f"{name} is too large: at most {MOST_PIXELS:,} pixels") from None
        except UnidentifiedImageError:
            raise InputError(f"{name} is not an image that can be read; JPEG, PNG, WebP ... are") from None
        except Exception as error:  # decoders raise many kinds on damaged data
            raise _damaged(name, error) from None


def to_input(photo: Image.Image, size: tuple[int, int]) -> torch.Tensor:
    """Resize an RGB photo to ``size`` (width, height) and normalise: (1, 3, height, width), float32."""
    import torch

    resized = np.asarray(photo.resize(size, Image.Resampling.BILINEAR), np.float32) / 255
    normalised = (resized - np.array(MEAN, np.float32)) / np.array(DEVIATION, np.float32)
    return torch.from_numpy(normalised).permute(2, 0, 1)[None]


def _read_file(path: Path) -> Image.Image:
    try:
        if not path.exists():
            raise InputError(f"no such image: {path}")
        if not path.is_file():
            raise InputError(
                f"{path} is a {'folder' if path.is_dir() else 'device or a pipe'}; give an image file"
            )
        if path.stat().st_size == 0:
            raise InputError(f"{path} is empty; give an image file")
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # our own limit on the size is lower, and other oddities are harmless
            with Image.open(path) as opened:
                if opened.format == "EPS":  # a program, not a photo: decoding would run another program
                    raise UnidentifiedImageError
                _check_size(opened.size, str(path))
                return _upright_rgb(opened, str(path))
    except InputError:
        raise
    except UnidentifiedImageError:
        raise InputError(f"{path} is not an image that can be read; JPEG, PNG, WebP, TIFF ... are") from None
    except Image.DecompressionBombError:
        raise InputError(
            f"{path} is too large: at most {MOST_PIXELS:,} pixels; make it smaller first"
        ) from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    except Exception as error:
        raise _damaged(str(path), error) from None


def _damaged(name: str, error: Exception) -> InputError:
    return InputError(f"{name} is damaged or cut off ({error}); get a fresh copy")


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
    except Exception as error:  # decoders raise many kinds on damaged data
        raise _damaged(name, error) from None
    image = _upright(image)
    if image.mode == "F":  # a float file has no agreed range: stretch it over 0 .. 1
        values = np.asarray(image)
        low, high = float(values.min()), float(values.max())
        if np.isfinite([low, high]).all():
            values = (values - low) / (high - low or 1)
        return _from_array(values, name)
    if image.mode.startswith("I"):  # 16-bit or 32-bit greyscale
        return _from_array(np.asarray(image), name)
    try:
        if image.has_transparency_data:
            image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
        photo = image.convert("RGB")
    except ValueError:
        raise InputError(
            f"{name} has the colour mode {image.mode}, which cannot be read; save it as RGB"
        ) from None
    photo.info.clear()  # turned and flattened: no longer what the EXIF and transparency data speak of
    return photo


def _upright(image: Image.Image) -> Image.Image:
    """Turned as its EXIF data say; as it is if they cannot be read."""
    try:
        orientation = image.getexif().get(ExifTags.Base.Orientation)
    except Exception:
        orientation = None
    return image.transpose(TURNS[orientation]) if orientation in TURNS else image


def _from_tensor(tensor: torch.Tensor, name: str) -> Image.Image:
    if tensor.ndim not in (2, 3) or (tensor.ndim == 3 and len(tensor) not in (1, 3, 4)):
        raise InputError(f"{name} has shape {tuple(tensor.shape)}; wanted (H, W), (3, H, W) or (4, H, W)")
    tensor = tensor.detach().cpu()
    tensor = tensor.float() if tensor.is_floating_point() else tensor  # NumPy does not know bfloat16
    return _from_array((tensor.permute(1, 2, 0) if tensor.ndim == 3 else tensor).numpy(), name)


def _from_array(array: NDArray[Any], name: str) -> Image.Image:
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if not (array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))):
        raise InputError(f"{name} has shape {array.shape}; wanted (H, W), (H, W, 3) or (H, W, 4)")
    _check_size((array.shape[1], array.shape[0]), name)
    if array.dtype.kind not in "buif":
        raise InputError(f"{name} holds {array.dtype}; wanted 8-bit or 16-bit integers, or floats in [0, 1]")
    low, high = array.min(), array.max()
    if array.dtype.kind == "b":
        array = array * np.uint8(255)
    elif array.dtype.kind == "f":
        if not (np.isfinite(low) and np.isfinite(high)):
            raise InputError(f"{name} holds NaN or infinity; wanted floats in [0, 1]")
        if low < -SLACK or high > 1 + SLACK:
            raise InputError(f"{name} holds floats from {low:.3g} to {high:.3g}; wanted [0, 1]")
        array = np.rint(array.clip(0, 1) * 255).astype(np.uint8)
    elif array.dtype != np.uint8:
        if low < 0 or high > 65535:
            raise InputError(f"{name} holds values from {low} to {high}; wanted 8 or 16 bits")
        sixteen_bits = array.dtype.newbyteorder("=") == np.uint16 or high > 255
        array = np.rint(array / 257 if sixteen_bits else array).astype(np.uint8)
    return _upright_rgb(Image.fromarray(np.ascontiguousarray(array)), name)
