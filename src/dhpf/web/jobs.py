"""Heavy work, one piece at a time, with a bounded queue before it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ..memory import return_freed_memory
from .limits import BusyError, Supply

Done = TypeVar("Done")


class Jobs:
    """One worker thread (torch uses all processors anyway) and a number of places in the queue for it."""

    def __init__(self, places: int) -> None:
        self.places = Supply(places)
        self._thread = ThreadPoolExecutor(1, "dhpf-web")

    async def run(self, client: str, work: Callable[[], Done]) -> Done:
        """Do ``work`` in the worker thread, after what came before; ``BusyError`` if too much did."""

        def tidy() -> Done:
            try:
                return work()
            finally:
                return_freed_memory()

        with self.places.drawn(client) as take:
            take(1)
            try:
                return await asyncio.get_running_loop().run_in_executor(self._thread, tidy)
            except asyncio.CancelledError:  # the server ends; who asked is told to try again
                raise BusyError from None

    def close(self) -> None:
        """Forget what waits, and let the thread end."""
        self._thread.shutdown(wait=False, cancel_futures=True)
