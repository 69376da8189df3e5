"""Large matrices that are cheap to get."""

from __future__ import annotations

import threading

import numpy as np
import torch
from torch import Tensor

_scratch = threading.local()


def empty_matrix(rows: int, columns: int, like: Tensor) -> Tensor:
    """An uninitialised matrix of the type and on the device of ``like``.

    NumPy asks the system for huge pages, which torch does not: on the CPU that makes the first touch of
    a large matrix about four times cheaper.
    """
    if like.device.type == "cpu" and like.dtype == torch.float32:
        return torch.from_numpy(np.empty((rows, columns), np.float32))
    return like.new_empty(rows, columns)


def scratch_matrix(rows: int, columns: int, like: Tensor, most_kept: int) -> Tensor:
    """An uninitialised matrix. Each thread keeps one of up to ``most_kept`` bytes for its next match: to get
    that much from the system anew costs as much as a pass over it."""
    kept: Tensor | None = getattr(_scratch, "matrix", None)
    fits = kept is not None and kept.numel() >= rows * columns
    if kept is None or not fits or (kept.dtype, kept.device) != (like.dtype, like.device):
        kept = empty_matrix(rows, columns, like)
        _scratch.matrix = kept if kept.numel() * kept.element_size() <= most_kept else None
    return kept.view(-1)[: rows * columns].view(rows, columns)
