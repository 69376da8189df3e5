"""What becomes of freed memory: a training keeps it for its next step, a server gives it back."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # glibc's names for what mallopt sets
KEPT = 2**31 - 1


def keep_freed_memory() -> None:
    """Ask the C library to keep large freed blocks.

    By default each of a step's large arrays is fetched from the system and given back, and the system clears
    it page by page: about as much work as the step itself. Elsewhere than on Linux with glibc, nothing
    happens.
    """
    if mallopt := _of_the_c_library("mallopt"):
        mallopt(MMAP_THRESHOLD, KEPT)
        mallopt(TRIM_THRESHOLD, KEPT)


def return_freed_memory() -> None:
    """Give freed memory back to the system.

    Without it, the C library keeps freed blocks between those in use, and what a server holds grows with the
    busiest moment that it ever had. Elsewhere than on Linux with glibc, nothing happens.
    """
    if malloc_trim := _of_the_c_library("malloc_trim"):
        malloc_trim(0)


def _of_the_c_library(name: str) -> Callable[..., int] | None:
    """A function that glibc has and others may lack."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        function: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError):
        return None
    return function
