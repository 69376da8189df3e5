"""Safetensors files that know whether they are whole, and what they hold; and features in them."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from ..backbones.base import Features, Regions
from ..grid import Grid

LARGEST = torch.finfo(torch.float16).max


def seal(tensors: dict[str, Tensor], about: Any) -> bytes:
    """The content of a file with these tensors, contiguous on the CPU, and with plain data about them."""
    text = json.dumps(about)
    return save(tensors, {"sealed": f"{_checksum(tensors, text)} {text}"})  # one entry: they have no order


def unseal(path: Path, checked: bool = False) -> tuple[dict[str, Tensor], Any] | None:
    """The tensors, memory-mapped, and what is said about them; None if the file is damaged or another's.

    Parameters
    ----------
    checked
        The checksum of this file is known to fit.
    """
    try:
        with safe_open(path, "pt") as file:
            checksum, _, text = (file.metadata() or {})["sealed"].partition(" ")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a mapping
        if not checked and checksum != _checksum(tensors, text):
            return None
        return tensors, json.loads(text)
    except (OSError, SafetensorError, KeyError, ValueError, RecursionError):
        return None


def _checksum(tensors: dict[str, Tensor], about: str) -> str:
    """Of all values with their names, types and shapes, and of what is said about them."""
    total = zlib.crc32(about.encode())
    for name, tensor in sorted(tensors.items()):
        total = zlib.crc32(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode(), total)
        total = zlib.crc32(tensor.reshape(-1).view(torch.uint8).numpy(), total)  # type: ignore[arg-type]
    return f"{total:08x}"


def as_tensors(features: Features) -> dict[str, Tensor]:
    """Features as such a file holds them: on the CPU, blocks in float16."""
    blocks = {f"block.{n}": b.clamp(-LARGEST, LARGEST).half() for n, b in features.blocks.items()}
    pooled = {f"pooled.{n}": p for n, p in features.pooled.items()}
    beside = {f"tokens.{n}": some for n, some in features.tokens.items()}
    others: dict[str, Tensor] = {} if features.regions is None else features.regions._asdict()
    if features.foreground is not None:
        others["foreground"] = features.foreground
    if features.transformed:
        others["transformed"] = torch.tensor(True)  # that it is there says it
    return {name: tensor.cpu().contiguous() for name, tensor in (blocks | pooled | beside | others).items()}


def as_features(tensors: dict[str, Tensor], grid: Grid) -> Features:
    """The features of :func:`as_tensors`, in the order of their layers."""
    layers = sorted(int(name.removeprefix("block.")) for name in tensors if name.startswith("block."))
    blocks, pooled = ({n: tensors[f"{kind}.{n}"] for n in layers} for kind in ("block", "pooled"))
    beside = {n: tensors[f"tokens.{n}"] for n in layers if f"tokens.{n}" in tensors}
    regions = Regions(tensors["boxes"], tensors["descriptors"]) if "boxes" in tensors else None
    foreground, transformed = tensors.get("foreground"), "transformed" in tensors
    return Features(blocks, pooled, grid, foreground, transformed, regions, beside)
