"""Heavy work, one piece at a time, with a bounded queue before it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from ..memory import return_freed_memory

RETRY_SECONDS = 2

Done = TypeVar("Done")


class BusyError(Exception):
    """Too many jobs are waiting already."""


class Jobs:
    """One worker thread (torch uses all processors anyway) and a number of places in the queue for it.

    Everything here is called from the event loop's thread, so the count needs no lock.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._thread = ThreadPoolExecutor(1, "dhpf-web")

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold a place in the queue; :class:`BusyError` if there is none.

        An upload takes its place before its bytes are read, so that these are bounded, too.
        """
        if self._free == 0:
            raise BusyError
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1

    async def run(self, work: Callable[[], Done]) -> Done:
        """Do ``work`` in the worker thread, after what came before; only while holding a place."""

        def tidy() -> Done:
            try:
                return work()
            finally:
                return_freed_memory()

        return await asyncio.get_running_loop().run_in_executor(self._thread, tidy)

    def close(self) -> None:
        """Forget what waits, and let the thread end."""
        self._thread.shutdown(wait=False, cancel_futures=True)
