"""Compiled loops, and how they run side by side."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]
Kernel = TypeVar("Kernel", bound=Callable[..., None])

PARTS = 16  # however many threads there are: sums over parts are then the same


def compiled(kernel: Kernel) -> Kernel:
    """Compile for vector units: sums may be reordered and products fused (inf and nan keep their meaning);
    a division by zero does not raise. The code is cached beside this file or, if that cannot be written,
    in the user's cache folder; if neither can, it is compiled in every process."""
    options: dict[str, Any] = {
        "nogil": True,
        "error_model": "numpy",
        "fastmath": {"reassoc", "contract", "arcp", "nsz"},
    }
    try:
        return cast(Kernel, njit(kernel, cache=True, **options))
    except RuntimeError:  # numba found no folder that it may write
        return cast(Kernel, njit(kernel, **options))


def in_threads(count: int, work: Callable[[int, int], None], step: int | None = None) -> None:
    """Call ``work(start, stop)`` for parts of ``count`` items, on as many threads as torch uses.

    The work must release the interpreter lock, as compiled kernels do.
    """
    spans = parts(count, step)
    threads = torch.get_num_threads()
    if threads == 1:
        for span in spans:
            work(*span)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda span: work(*span), spans))


def parts(count: int, step: int | None = None) -> list[tuple[int, int]]:
    """Start and stop of the parts of so many items."""
    step = step or max(1, -(-count // PARTS))
    return [(start, min(start + step, count)) for start in range(0, count, step)]
