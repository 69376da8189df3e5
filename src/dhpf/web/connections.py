"""Connections that wait for their client only so long, and make room for others.

Uvicorn bounds how long a connection may be silent after an answer, and the number of connections; but not how
long a request's head may take, how long an answer may be left untaken, or what one client has. When its bound
on connections is reached, it refuses everyone. Here, the one that has waited for its client longest goes.
"""

from __future__ import annotations

import asyncio
from typing import Literal

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from .limits import Limits, client_at, most_of


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
    waits_for: Literal["connection", "head", "body", "taking"] | None = "connection"  # None: it is at work
    waits_since = 0.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See :class:`asyncio.Protocol`, as for the others."""
        super().connection_made(transport)
        self._look()
        self._make_room()

    def data_received(self, data: bytes) -> None:
        """The head or body of a request may be complete."""
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """The next request may have come already."""
        super().on_response_complete()
        self._look()

    def pause_writing(self) -> None:
        """The client has not taken what was written."""
        super().pause_writing()
        self._look()

    def resume_writing(self) -> None:
        """It has."""
        super().resume_writing()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """There is nothing to wait for."""
        super().connection_lost(exc)
        self._stop_timer()

    def shutdown(self) -> None:
        """The server ends, and need not wait for slow clients."""
        if self.waits_for in ("body", "taking"):
            self._drop()
        else:
            super().shutdown()

    def _look(self) -> None:
        """Find out what the connection waits for, and begin to count the time if that is something new."""
        before, seconds = self.waits_for, None
        if self.flow.write_paused:
            self.waits_for, seconds = "taking", self.limits.body_seconds
        elif self.cycle is None or self.cycle.response_complete:
            self.waits_for, seconds = "head", self.limits.head_seconds
        else:  # the application itself bounds the time for a body, to answer with a sentence
            self.waits_for = "body" if self.cycle.more_body else None
        if self.waits_for != before:
            self._stop_timer()
            self.waits_since = self.loop.time()
            if seconds is not None:
                self._timer = self.loop.call_later(seconds, self._drop)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _drop(self) -> None:
        self.connections.discard(self)
        self.transport.abort()

    def _make_room(self) -> None:
        """Keep to the bounds on connections, of this client and of all."""
        everyone = [other for other in self.connections if isinstance(other, Connection)]
        mine = [other for other in everyone if other._client == self._client]
        for crowd, most in ((mine, most_of(self.limits.connections)), (everyone, self.limits.connections)):
            if len(crowd) > most:
                waiting = [other for other in crowd if other.waits_for]  # at least this one
                min(waiting, key=lambda other: other.waits_since)._drop()
                return

    @property
    def _client(self) -> str:
        return client_at(self.client[0]) if self.client else ""
