"""What one client may ask of the page, and all of them together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """How much is enough for photos and clicks, and too little to harm the machine."""

    upload_bytes: int = 32 * 2**20  # a photo's file; read_image bounds its pixels
    json_bytes: int = 64 * 2**10  # everything else that is sent
    points_bytes: int = 2**20  # a file of points
    head_seconds: float = 10.0  # for the next request on a connection, up to the end of its headers
    body_seconds: float = 60.0  # for sending what follows them, and for taking the answer
    points: int = 200
    jobs: int = 8  # worked on or waiting, of all clients together; beyond, the answer is "busy"
    incoming_bytes: int = 256 * 2**20  # uploads of all clients that are not decoded yet
    connections: int = 128
    sessions: int = 64
    session_seconds: float = 3600.0  # without use
    kept_bytes: int = 2**30  # photos and matches of all sessions together


class BusyError(Exception):
    """Too much is under way already."""


def most_of(supply: int) -> int:
    """How much of a supply one client gets: half, so that nobody alone can shut the others out."""
    return max(1, supply // 2)


class Supply:
    """Something that all clients draw on, such as places in a queue.

    Only the event loop's thread uses this: no locks.
    """

    def __init__(self, amount: int) -> None:
        self._amount = amount
        self._held: Counter[str] = Counter()

    def check(self, client: str, amount: int = 1) -> None:
        """Raise :class:`BusyError` if the client cannot have so much now."""
        if self._held.total() + amount > self._amount or self._held[client] + amount > most_of(self._amount):
            raise BusyError

    @contextmanager
    def drawn(self, client: str) -> Iterator[Callable[[int], None]]:
        """A function that takes so much more for the client, who gives all of it back in the end."""
        taken = Counter[str]()

        def take(amount: int) -> None:
            self.check(client, amount)
            taken[client] += amount
            self._held[client] += amount

        try:
            yield take
        finally:
            self._held -= taken  # which also forgets who holds nothing
