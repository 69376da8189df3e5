"""Anything a user calls an image -> an upright RGB image, or an error that says what is wrong.

This is the only code of the package that opens image files.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import threading
import warnings
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, UnidentifiedImageError

from .errors import InputError

if TYPE_CHECKING:
    import torch

ImageLike: TypeAlias = "str | os.PathLike[str] | Image.Image | NDArray[Any] | torch.Tensor"

# All else is refused: Pillow knows formats that start other programs (EPS) or that nobody takes photos in.
FORMATS = ("JPEG", "PNG", "WEBP", "TIFF", "BMP", "GIF", "PPM")
SMALLEST_SIDE = 8  # pixels; less than that has nothing to match
MOST_PIXELS = 64_000_000
MOST_BYTES = 1_000_000_000  # of a file
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
SIDEWAYS = (5, 6, 7, 8)  # orientations that exchange width and height
WEB_ADDRESS = re.compile(r"([a-zA-Z][\w+.-]+):/+(.+)")  # a path may have lost one of the slashes


def read_image(image: ImageLike, name: str = "image") -> Image.Image:
    """Read an image as upright 8-bit RGB; what is transparent becomes white.

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
        with open_image(Path(image)) as opened:
            return _upright_rgb(opened, str(image))
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
    with _opened(io.BytesIO(content), name) as opened:
        return _upright_rgb(opened, name)


def read_size(path: Path) -> tuple[int, int]:
    """Width and height of the upright image, without decoding it where its header tells them."""
    try:
        stat = path.stat()
    except (OSError, ValueError):  # the reader says what is wrong
        return _read_size(path, 0, 0)
    return _read_size(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=1 << 16)  # training asks again in every epoch
def _read_size(path: Path, changed: int, length: int) -> tuple[int, int]:
    with open_image(path) as image:
        if image.format in ("PNG", "TIFF"):  # may state the orientation behind the pixels, or turn themselves
            image.load()
        width, height = image.size
        return (height, width) if _orientation(image) in SIDEWAYS else (width, height)


def to_input(
    image: Image.Image,
    size: tuple[int, int],
    mean: tuple[float, float, float],
    std: tuple[float, float, float],
) -> torch.Tensor:
    """Resize an RGB image to ``size`` (width, height) and normalise: (1, 3, height, width), float32."""
    import torch

    resized = np.asarray(image.resize(size, Image.Resampling.BILINEAR), np.float32) / 255
    normalised = (resized - np.array(mean, np.float32)) / np.array(std, np.float32)
    return torch.from_numpy(normalised).permute(2, 0, 1)[None]


@contextlib.contextmanager
def open_image(path: Path) -> Iterator[Image.Image]:
    """Open a file of an accepted format and size, not yet decoded; all that fails is one line.

    Class maps need it, whose values are not colours; all others call :func:`read_image`.
    """
    try:
        _check_file(path)
        with path.open("rb") as file, _opened(file, str(path)) as opened:
            yield opened
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None


def _check_file(path: Path) -> None:
    if not path.exists():
        if address := WEB_ADDRESS.fullmatch(str(path)):
            scheme, rest = address.groups()
            raise InputError(f"{scheme}://{rest} is a web address; download the image and give the file")
        raise InputError(f"no such image: {path}")
    if not path.is_file():  # a pipe or a device could make us wait for ever
        kind = "folder" if path.is_dir() else "device or a pipe"
        raise InputError(f"{path} is a {kind}; give an image file")
    length = path.stat().st_size
    if length > MOST_BYTES:
        raise InputError(f"{path} is too large: {length:,} bytes, at most {MOST_BYTES:,}")


class _Quiet:
    """No warnings of Pillow while any thread reads: our limit on the size is lower, other oddities harmless.

    Filters of warnings belong to the whole process: the first reader sets them, the last one sets them back.
    """

    def __init__(self) -> None:
        self._lock, self._readers, self._filters = threading.Lock(), 0, contextlib.ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            if self._readers == 0:
                self._filters.enter_context(warnings.catch_warnings())
                warnings.simplefilter("ignore")
            self._readers += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._readers -= 1
            if self._readers == 0:
                self._filters.close()


_QUIET = _Quiet()


@contextlib.contextmanager
def _opened(file: IO[bytes], name: str) -> Iterator[Image.Image]:
    header = file.read(12)
    if not header:
        raise InputError(f"{name} is empty; give an image file")
    try:
        with _QUIET, Image.open(file, formats=_formats(header)) as opened:
            _check_size(opened.size, name)
            yield opened
    except (InputError, MemoryError):
        raise
    except UnidentifiedImageError:
        if header[4:8] == b"ftyp":
            message = f"{name} is a HEIC or AVIF image that cannot be read; save it as JPEG or PNG first"
        else:
            message = f"{name} is not an image that can be read; {', '.join(FORMATS)} are"
        raise InputError(message) from None
    except Image.DecompressionBombError:
        raise InputError(
            f"{name} is too large: at most {MOST_PIXELS:,} pixels; make it smaller first"
        ) from None
    except Exception as error:  # decoders raise many kinds on damaged data
        raise _damaged(name, error) from None


def _formats(header: bytes) -> tuple[str, ...]:
    """The formats that a file may have."""
    if header[4:8] != b"ftyp":
        return FORMATS
    Image.init()  # HEIC or AVIF; the latter is read if this Pillow can
    return ("AVIF",) if "AVIF" in Image.OPEN else ()


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
    image = load_upright(image, name)
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


def load_upright(image: Image.Image, name: str) -> Image.Image:
    """Decode an opened image and turn it as its EXIF data say."""
    try:
        image.load()
    except MemoryError:
        raise
    except Exception as error:
        raise _damaged(name, error) from None
    orientation = _orientation(image)
    return image if orientation is None else image.transpose(TURNS[orientation])


def _orientation(image: Image.Image) -> int | None:
    """What the EXIF data say; None if they say nothing that can be read."""
    with contextlib.suppress(Exception):
        orientation: int | None = image.getexif().get(ExifTags.Base.Orientation)
        return orientation if orientation in TURNS else None
    return None


def _from_tensor(tensor: torch.Tensor, name: str) -> Image.Image:
    try:
        shape = tuple(tensor.shape)
        if len(shape) not in (2, 3) or (len(shape) == 3 and shape[0] not in (1, 3, 4)):
            raise InputError(f"{name} has shape {shape}; wanted (H, W), (3, H, W) or (4, H, W)")
        tensor = tensor.detach().cpu().resolve_neg()
        tensor = tensor.float() if tensor.is_floating_point() else tensor  # NumPy does not know bfloat16
        array = (tensor.permute(1, 2, 0) if tensor.ndim == 3 else tensor).numpy()
    except (InputError, MemoryError):
        raise
    except Exception:  # sparse, meta, quantised, nested ...
        kind = f"{tensor.layout}, {tensor.dtype}, on {tensor.device}"
        raise InputError(f"{name} is a tensor without plain values ({kind}); give a dense one") from None
    return _from_array(array, name)


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
