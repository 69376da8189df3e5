"""Connections that wait for their client only so long, and make room for others.

Uvicorn bounds how long a connection may be silent after an answer, and the number of connections; but not how
long a request's head may take, how long an answer may be left untaken, or what one client has. When its bound
on connections is reached, it refuses everyone. Here, the one that has waited for its client longest goes.
"""

from __future__ import annotations

import asyncio
from math import inf

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from .addresses import client_at
from .limits import Limits, most_of

LOOKS = 10  # at each connection in the time that a head may take


def build_server(app: ASGIApp, limits: Limits | None = None) -> uvicorn.Server:
    """A server of the application; only failures of the application are logged."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=type("Limited", (Connection,), {"limits": limits or Limits()}),
            ws="none",
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=2,
        )
    )


class Connection(H11Protocol):
    """One connection of a client."""

    limits = Limits()
    _seen: tuple[str, object] | None = (
        None  # what it waited for, and after which request, when last looked at
    )
    _since = 0.0  # when that was seen first
    _timer: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See :class:`asyncio.Protocol`."""
        super().connection_made(transport)
        self._look()
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """See :class:`asyncio.Protocol`."""
        self._timer.cancel()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """The server ends, and need not wait for slow clients."""
        if self._waits_for() in ("body", "taking"):
            self._drop()
        else:
            super().shutdown()

    def _waits_for(self) -> str:
        """What the client is to do next; nothing, while the server is at work."""
        if self.flow.write_paused:
            return "taking"  # the answer
        if self.cycle is None or self.cycle.response_complete:
            return "head"
        return "body" if self.cycle.more_body else ""

    def _look(self) -> None:
        """Look now and then what the connection waits for, and drop it if that takes too long."""
        now, seen = self.loop.time(), (self._waits_for(), self.cycle)
        if seen != self._seen:
            self._seen, self._since = seen, now
        # The application itself bounds the time for a body, to answer with a sentence.
        seconds = {"head": self.limits.head_seconds, "taking": self.limits.body_seconds}.get(seen[0], inf)
        if now - self._since > seconds:
            self._drop()
        else:
            self._timer = self.loop.call_later(self.limits.head_seconds / LOOKS, self._look)

    def _make_room(self) -> None:
        """Keep to the bounds on connections, of this client and of all."""
        everyone = [other for other in self.connections if isinstance(other, Connection)]
        mine = [other for other in everyone if other._client == self._client]
        for crowd, most in ((mine, most_of(self.limits.connections)), (everyone, self.limits.connections)):
            if len(crowd) > most:
                waiting = [other for other in crowd if other._waits_for()]  # at least this one
                min(waiting, key=lambda other: other._since)._drop()
                return

    def _drop(self) -> None:
        self.connections.discard(self)
        self.transport.abort()

    @property
    def _client(self) -> str:
        return client_at(self.client[0]) if self.client else ""
