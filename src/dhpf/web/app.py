"""The application: static files, the answers of the page, and a sentence for everything that fails."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from ..errors import InputError
from .guard import Guard, Hosts
from .limits import BusyError, Limits
from .models import Models
from .review import Review
from .review_routes import ReviewPage
from .routes import Page

STATIC = Path(__file__).parent / "static"
FILES = {"/": "index.html"} | {
    f"/{name}": name for name in ("page.css", "page.js", "drawing.js", "dragging.js", "server.js", "icon.svg")
}
REVIEW_FILES = {"/review": "review.html", "/review.js": "review.js"}

BUSY = "busy with other photos; try again in a few seconds"
RETRY_SECONDS = 2

Handler: TypeAlias = Callable[[Request, Exception], Awaitable[Response]]


def build_app(
    models: Models,
    hosts: Hosts | None = None,
    limits: Limits | None = None,
    cookie: str = "dhpf",
    review: Review | None = None,
) -> ASGIApp:
    """Everything that is served.

    Parameters
    ----------
    models
        What can be picked.
    hosts
        The names by which the page may be called; by default those of this machine for itself.
    limits
        What may be asked.
    cookie
        The name of the session's cookie. Browsers share cookies between the ports of a machine, so two
        servers there need two names.
    review
        Annotations to be reviewed, for which there is a page of its own.
    """
    page = Page(models, limits or Limits(), cookie, has_review=review is not None)
    review_page = None if review is None else ReviewPage(review, page)
    files = FILES | ({} if review is None else REVIEW_FILES)

    @asynccontextmanager
    async def running(app: Starlette) -> AsyncIterator[None]:
        async with page.running(app):
            yield
        if review_page is not None:
            review_page.close()

    app = Starlette(
        routes=[
            *(_static(path, name) for path, name in files.items()),
            *page.routes(),
            *([] if review_page is None else review_page.routes()),
        ],
        exception_handlers={
            InputError: _says(400),
            HTTPException: _refused,
            BusyError: _says(503, BUSY, {"Retry-After": str(RETRY_SECONDS)}),
            ClientDisconnect: _says(400),  # nobody will see it
            Exception: _says(500, "something went wrong here; the program's own output says what"),
        },
        lifespan=running,
    )
    return Guard(app, hosts or Hosts())


def _static(path: str, name: str) -> Route:
    """One file at one address: no part of a request ever becomes part of a path."""

    async def answer(request: Request) -> Response:
        return FileResponse(STATIC / name)

    return Route(path, answer, methods=["GET"])


def _says(status: int, sentence: str = "", headers: dict[str, str] | None = None) -> Handler:
    """Answer an error with a sentence, by default its own."""

    async def answer(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": sentence or str(error)}, status, headers)

    return answer


async def _refused(request: Request, error: Exception) -> Response:
    refusal = cast(HTTPException, error)
    plain = {"Not Found": "there is nothing here", "Method Not Allowed": "this cannot be asked that way"}
    return JSONResponse({"error": plain.get(refusal.detail, refusal.detail)}, refusal.status_code)
