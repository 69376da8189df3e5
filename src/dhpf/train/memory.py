"""Memory that is freed in a step is needed again in the next: keep it instead of giving it back."""

from __future__ import annotations

import ctypes
import sys

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # glibc's names for what mallopt sets
KEPT = 2**31 - 1


def keep_freed_memory() -> None:
    """Ask the C library to keep large freed blocks.

    By default each of a step's large arrays is fetched from the system and given back, and the system clears
    it page by page: about as much work as the step itself. Elsewhere than on Linux with glibc, nothing
    happens.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(MMAP_THRESHOLD, KEPT)
    mallopt(TRIM_THRESHOLD, KEPT)
