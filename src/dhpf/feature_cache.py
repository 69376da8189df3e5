"""Features of recently used images, computed once however many threads ask."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock
from typing import Generic, Protocol, TypeVar


class Sized(Protocol):
    """What can be held: it knows how much memory it takes."""

    @property
    def nbytes(self) -> int: ...


Key = TypeVar("Key")
Value = TypeVar("Value", bound=Sized)


class FeatureCache(Generic[Key, Value]):
    """The values that were asked for last, up to a number of bytes; the newest is held in any case.

    Parameters
    ----------
    compute
        The value of a key. It runs in the thread that asks first; others who ask for the same key wait. An
        error goes to all of them, and is not held.
    limit_bytes
        Bound on the values held.
    """

    def __init__(self, compute: Callable[[Key], Value], limit_bytes: int) -> None:
        self.compute, self.limit_bytes = compute, limit_bytes
        self.computed = 0  # values, until now
        self.held_bytes = 0
        self._values: OrderedDict[Key, Future[Value]] = OrderedDict()  # asked for longest ago first
        self._lock = Lock()

    def get(self, key: Key) -> Value:
        """From memory, or computed."""
        with self._lock:
            first = key not in self._values
            value = self._values.setdefault(key, Future())
            self._values.move_to_end(key)
            self.computed += first
        if first:
            try:
                value.set_result(self.compute(key))
            except BaseException as error:
                value.set_exception(error)
            with self._lock:
                self._settle(key, value)
        return value.result()

    def _settle(self, newest: Key, value: Future[Value]) -> None:
        """Forget a failure; make room for a value."""
        if value.exception():
            del self._values[newest]
            return
        self.held_bytes += value.result().nbytes
        for key in [key for key, held in self._values.items() if held.done() and key != newest]:
            if self.held_bytes > self.limit_bytes:
                self.held_bytes -= self._values.pop(key).result().nbytes
