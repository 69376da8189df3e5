"""Weights files, perhaps of strangers: read without running code, and within bounds on memory."""

from __future__ import annotations

import io
import pickle
import pickletools
import re
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from ..errors import InputError

SLACK = 2**28  # bytes that a file may have beyond the weights: a classifier, what trainers add
BYTES_PER_WEIGHT = 16  # float32 with two moments of an optimiser
SCALE = ".scale"  # where the size of a step is kept, of weights in 8 bits
INT8 = 127  # the largest value of 8 bits
TINY = 1e-30  # of a channel that is all zero
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
# All that a dictionary of tensors needs. Torch allows more, of which some takes memory without bound.
PLAIN = re.compile(
    r"collections OrderedDict|torch (\w+Storage|Size|device)|torch\._utils _rebuild_(tensor(_v2)?|parameter)"
)


def load_state(
    module: nn.Module,
    path: Path,
    complaint: str,
    unused: tuple[str, ...] = (),
    renamed: Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]] = lambda state: state,
) -> None:
    """Read weights made for exactly this module, but for keys that begin like ``unused`` ones."""
    weights = sum(value.numel() for value in module.state_dict().values())
    state = renamed(dequantised(read_state(path, BYTES_PER_WEIGHT * weights + SLACK)))
    load_strictly(
        module, {key: value for key, value in state.items() if not key.startswith(unused)}, complaint
    )


def quantised(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Matrices in 8 bits, one scale for each output channel; vectors in float32. A quarter of the size."""
    small: dict[str, Tensor] = {}
    for key, value in state.items():
        if value.ndim < 2 or value.shape[0] == 1:  # vectors, and embeddings that are added, not multiplied
            small[key] = value.half() if value.ndim > 1 else value.float()
            continue
        scale = (value.float().flatten(1).abs().amax(1) / INT8).clamp_min(TINY)
        small[key] = (value.float() / scale.view(-1, *[1] * (value.ndim - 1))).round().to(torch.int8)
        small[key + SCALE] = scale
    return small


def dequantised(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What :func:`quantised` made, as numbers; other weights as they are."""
    restored = {key: value for key, value in state.items() if not key.endswith(SCALE)}
    for key, value in restored.items():
        scale = state.get(key + SCALE)
        if value.dtype == torch.int8 and scale is not None and scale.shape == value.shape[:1]:
            restored[key] = value.float() * scale.float().view(-1, *[1] * (value.ndim - 1))
    return restored


def load_strictly(module: nn.Module, state: Mapping[str, Tensor], complaint: str) -> None:
    """Load weights made for exactly this module (as float32), or say what does not fit."""
    wanted, given = _without_counters(module.state_dict()), _without_counters(state)
    missing, extra = sorted(wanted.keys() - given.keys()), sorted(given.keys() - wanted.keys())
    if missing or extra:
        example = f"{missing[0]} is missing" if missing else f"{extra[0][:80]} is not known"
        raise InputError(f"{complaint}: {len(missing)} weights missing, {len(extra)} unknown ({example})")
    floats = {}
    for key, value in wanted.items():
        if given[key].shape != value.shape:
            shapes = f"{tuple(given[key].shape)}, wanted {tuple(value.shape)}"
            raise InputError(f"{complaint}: {key} has shape {shapes}")
        if given[key].dtype not in FLOATS:
            raise InputError(f"{complaint}: {key} holds {given[key].dtype}, wanted floats")
        floats[key] = given[key].float()
        if not floats[key].isfinite().all():
            raise InputError(f"{complaint}: {key} holds values that are infinite or no numbers")
    counters = {key: torch.tensor(0) for key in module.state_dict().keys() - wanted.keys()}
    module.load_state_dict(floats | counters, assign=True)
    module.requires_grad_(False)


def _without_counters(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Batch norms count their training steps, which matters to nothing here."""
    return {key: value for key, value in state.items() if not key.endswith("num_batches_tracked")}


def read_state(path: Path, limit: int = SLACK) -> dict[str, Tensor]:
    """Read a flat dictionary of tensors from a file of at most ``limit`` bytes; never runs code from it."""
    if not path.is_file():
        raise InputError(f"no such weights file: {path}")
    too_large = f"is too large for such weights; wanted at most {limit / 2**20:.0f} MB"
    try:
        if path.stat().st_size > limit:
            raise InputError(f"{path} {too_large}")
        if path.suffix.lower() == ".safetensors":
            return load_file(path)
        if not _is_plain(path):
            raise pickle.UnpicklingError
        state = torch.load(path, map_location="cpu", weights_only=True)
    except InputError:
        raise
    except PermissionError:
        raise InputError(f"{path} cannot be read: permission denied") from None
    except Exception:  # the readers raise many kinds on damaged data, and on code that they refuse to run
        raise InputError(f"{path} is not a weights file that can be read safely, or it is damaged") from None
    if isinstance(state, dict) and isinstance(state.get("state_dict"), dict):
        state = state["state_dict"]
    if not isinstance(state, dict) or not all(
        isinstance(key, str) and isinstance(value, Tensor) for key, value in state.items()
    ):
        raise InputError(f"{path} does not hold a dictionary of tensors; wanted a state dictionary")
    if sum(value.nbytes for value in state.values()) > limit:  # tensors may share what is stored
        raise InputError(f"{path} {too_large}")
    return state


def _is_plain(path: Path) -> bool:
    """Whether a file of ``torch.save`` names nothing but tensors and, unpacked, is not larger than it is."""
    with path.open("rb") as stream:
        if stream.read(4) != b"PK\3\4":  # as torch tells its two formats apart
            stream.seek(0)
            return all(_names_tensors_only(stream) for _ in range(4))  # magic, version, machine, content
    with zipfile.ZipFile(path) as archive:
        if sum(member.file_size for member in archive.infolist()) > path.stat().st_size:
            return False
        pickles = [member for member in archive.infolist() if member.filename.endswith("data.pkl")]
        return all(_names_tensors_only(io.BytesIO(archive.read(member))) for member in pickles)


def _names_tensors_only(stream: IO[bytes]) -> bool:
    """Of one pickle in the stream, without building anything: what it would import."""
    for operation, argument, _ in pickletools.genops(stream):
        named = str(argument) if operation.name in ("GLOBAL", "INST") else ""
        if operation.name == "STACK_GLOBAL" or (named and not PLAIN.fullmatch(named)):
            return False
    return True
