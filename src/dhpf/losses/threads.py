"""Compiled loops side by side."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch

PARTS = 16  # however many threads there are: sums over parts are then the same


def in_threads(count: int, work: Callable[[int, int], None]) -> None:
    """Call ``work(start, stop)`` for parts of ``count`` items, on as many threads as torch uses.

    The work must release the interpreter lock, as compiled kernels do.
    """
    spans = parts(count)
    threads = torch.get_num_threads()
    if threads == 1:
        for span in spans:
            work(*span)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda span: work(*span), spans))


def parts(count: int) -> list[tuple[int, int]]:
    """Start and stop of the parts of so many items."""
    step = max(1, -(-count // PARTS))
    return [(start, min(start + step, count)) for start in range(0, count, step)]
