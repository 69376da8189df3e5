"""Before and after every answer: who may ask, and the headers that keep the browser careful.

A page on another site can make a visitor's browser send requests to this machine. It cannot choose the Host
header (which betrays a name that was made to point here) nor the Origin header (which names the page).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .addresses import address, is_loopback

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SAFETY = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",  # other people's photos
}


@dataclass(frozen=True)
class Hosts:
    """The names by which the page may be called, beside those of this machine for itself.

    Addresses in digits need no list: a name can be made to point anywhere, an address cannot.
    """

    names: frozenset[str] = frozenset()
    any_address: bool = False  # in digits, else only this machine's for itself

    def allow(self, header: str) -> bool:
        """Whether a Host header names this page, on any port (it may be forwarded)."""
        try:
            name = urlsplit(f"//{header}").hostname or ""
        except ValueError:
            return False
        return name in self.names or is_loopback(name) or (self.any_address and address(name) is not None)


class Guard:
    """Wraps the application: refuses foreign requests, adds the headers and the time that an answer took."""

    def __init__(self, app: ASGIApp, hosts: Hosts) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See the ASGI specification."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(SAFETY)
                headers["Server-Timing"] = f"app;dur={1000 * (time.perf_counter() - started):.2f}"
            await send(message)

        refusal = self._refusal(scope["method"], Headers(scope=scope))
        answer = JSONResponse({"error": refusal}, 403) if refusal else self._app
        await answer(scope, receive, send_with_headers)

    def _refusal(self, method: str, headers: Headers) -> str | None:
        """Why a request is not answered, if it is not."""
        host = headers.get("host", "")
        if not self._hosts.allow(host):
            return f"this page is not called '{host[:80]}'; start it with --allow-host NAME if it should be"
        origin = headers.get("origin")
        if method not in ("GET", "HEAD") and origin is not None and _place(origin) != host:
            return "this request comes from another site's page; open the page itself"
        return None


def _place(origin: str) -> str | None:
    """Host and port of an origin."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None
