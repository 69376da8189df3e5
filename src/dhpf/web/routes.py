"""The answers of the page: photos in, a match, then points, heat maps and pictures of it.

Photos and matches carry ids that change with them. A request names those that it means, so that two windows
of one browser, which share a session, never get answers about each other's photos.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, cast

import numpy as np
from PIL import Image
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..errors import InputError, unknown
from ..images import read_image
from ..samples import PAIRS, sample_pair
from ..viz.colours import SCALE
from .incoming import decode_photo, photo_name, points_in, read_body, read_json
from .jobs import Jobs
from .limits import Limits
from .models import Models
from .sessions import Photo, Result, Session, Sessions, Side, prepare

VIEWS = {"lines": True, "warp": False, "flow": False, "heat": True}  # and whether they show the points
SIDES: tuple[Side, Side] = ("source", "target")
SWEEP_SECONDS = 30.0


class Page:
    """What the answers share."""

    def __init__(self, models: Models, limits: Limits, cookie: str) -> None:
        self.models = models
        self.limits = limits
        self.cookie = cookie
        self.jobs = Jobs(limits.jobs)
        self.sessions = Sessions(limits)

    def routes(self) -> list[Route]:
        """Every address that is answered, but for the static files."""
        return [
            Route("/api/setup", self.setup, methods=["GET"]),
            Route("/api/sample", self.take_sample, methods=["POST"]),
            Route("/api/photos/{side}", self.take_photo, methods=["PUT"]),
            Route("/api/photos/{side}/{photo}", self.photo, methods=["GET"]),
            Route("/api/match", self.match, methods=["POST"]),
            Route("/api/match/{match}/suggestions", self.suggestions, methods=["GET"]),
            Route("/api/match/{match}/points", self.points, methods=["POST"]),
            Route("/api/match/{match}/heat", self.heat, methods=["POST"]),
            Route("/api/match/{match}/warped", self.warped, methods=["GET"]),
            Route("/api/match/{match}/picture", self.picture, methods=["POST"]),
            Route("/api/session", self.forget, methods=["DELETE"]),
        ]

    @asynccontextmanager
    async def running(self, app: Starlette) -> AsyncIterator[None]:
        """Forget old sessions now and then, even while nobody asks anything."""

        async def sweep() -> None:
            while True:
                await asyncio.sleep(SWEEP_SECONDS)
                self.sessions.sweep()

        sweeper = asyncio.create_task(sweep())
        yield
        sweeper.cancel()
        with suppress(asyncio.CancelledError):
            await sweeper
        self.jobs.close()

    async def setup(self, request: Request) -> Response:
        """What there is to choose from."""
        limits = {"upload_bytes": self.limits.upload_bytes, "points": self.limits.points}
        shown: dict[str, Any] = {"models": self.models.described(), "samples": list(PAIRS), "limits": limits}
        return JSONResponse({**shown, "scale": SCALE.tolist()})

    async def take_photo(self, request: Request) -> Response:
        """The bytes of a photo's file -> its id and size."""
        side, name = _side(request), photo_name(request)
        with self.jobs.place():
            data = await read_body(request, self.limits.upload_bytes, self.limits)
            photo = await self.jobs.run(lambda: prepare(name, decode_photo(data, name)))
        return self._keep(request, {side: photo})

    async def take_sample(self, request: Request) -> Response:
        """The name of a sample pair -> ids and sizes of both photos."""
        name = str((await read_json(request, self.limits)).get("pair"))
        paths = dict(zip(SIDES, sample_pair(name), strict=True))
        with self.jobs.place():
            photos = {
                side: await self.jobs.run(partial(lambda path: prepare(path.name, read_image(path)), path))
                for side, path in paths.items()
            }
        return self._keep(request, photos)

    async def photo(self, request: Request) -> Response:
        """A photo as it is shown."""
        photo = self._session(request).photos.get(_side(request))
        if photo is None or photo.id != request.path_params["photo"]:
            raise HTTPException(404, "that photo is no longer kept; choose it again")
        return Response(photo.jpeg, media_type="image/jpeg")

    async def match(self, request: Request) -> Response:
        """Ids of both photos and the name of a model -> the id of their match, and the chosen layers."""
        session = self._session(request)
        content = await read_json(request, self.limits)
        name = self.models.check(content.get("model", self.models.default))
        source, target = (session.photos.get(side) for side in SIDES)
        if not (source and target) or [source.id, target.id] != [content.get(side) for side in SIDES]:
            raise HTTPException(409, "these photos are no longer kept; choose both again")

        def work() -> Result:
            matcher = self.models.matcher(name)
            match = matcher.match(source.original, target.original)
            return Result.of(match, source, target, len(matcher.network.backbone.channels))

        with self.jobs.place():
            result = await self.jobs.run(work)
        session.result = result
        self.sessions.sweep()
        known = result.match.to_dict([])
        shown = {key: known[key] for key in ("model", "layers", "layer_probability")}
        return JSONResponse({"match": result.id, "layer_count": result.layer_count, **shown})

    async def suggestions(self, request: Request) -> Response:
        """Confident points of the source photo."""
        return JSONResponse({"points": np.round(self._result(request).match.keypoints(), 1).tolist()})

    async def points(self, request: Request) -> Response:
        """Points of the source photo -> what ``Match.to_dict`` says of them."""
        match = self._result(request).match
        content = await read_json(request, self.limits)
        return JSONResponse(match.to_dict(points_in(content, match.source.size, self.limits)))

    async def heat(self, request: Request) -> Response:
        """One point of the source photo -> how well each cell of the target's grid fits it."""
        match = self._result(request).match
        points = points_in(await read_json(request, self.limits), match.source.size, self.limits)
        if len(points) != 1:
            raise InputError(f"a heat map is of one point; {len(points)} were given")
        return JSONResponse({"scores": np.round(match.scores(points[0]).astype(float), 5).tolist()})

    async def warped(self, request: Request) -> Response:
        """The source photo warped onto the target."""
        view = self._result(request).view
        with self.jobs.place():
            picture = await self.jobs.run(lambda: _encoded(view.warp(), "JPEG"))
        return Response(picture, media_type="image/jpeg")

    async def picture(self, request: Request) -> Response:
        """A view and points -> the drawing of it, as PNG."""
        result = self._result(request)
        content = await read_json(request, self.limits)
        if (style := str(content.get("view"))) not in VIEWS:
            raise unknown("view", style[:80], VIEWS)
        match = result.view if style == "warp" else result.match  # all pixels of a large photo take long
        points = points_in(content, match.source.size, self.limits) if VIEWS[style] else None
        with self.jobs.place():
            picture = await self.jobs.run(lambda: _encoded(match.draw(points, style=style), "PNG"))
        return Response(picture, media_type="image/png")

    async def forget(self, request: Request) -> Response:
        """Forget the photos of this session."""
        self.sessions.drop(request.cookies.get(self.cookie))
        response = Response(status_code=204)
        response.delete_cookie(self.cookie, httponly=True, samesite="strict")
        return response

    def _keep(self, request: Request, photos: dict[Side, Photo]) -> Response:
        """Put photos into the session, a new one if need be."""
        key = request.cookies.get(self.cookie)
        session = self.sessions.find(key)
        if session is None:
            key, session = self.sessions.start()
        for side, photo in photos.items():
            session.put(side, photo)
        self.sessions.sweep()
        response = JSONResponse({side: _described(photo) for side, photo in photos.items()})
        response.set_cookie(self.cookie, str(key), httponly=True, samesite="strict")
        return response

    def _session(self, request: Request) -> Session:
        session = self.sessions.find(request.cookies.get(self.cookie))
        if session is None:
            minutes = self.limits.session_seconds / 60
            raise HTTPException(
                404,
                f"no photos are kept here (unused ones are forgotten after {minutes:g} minutes); choose two",
            )
        return session

    def _result(self, request: Request) -> Result:
        result = self._session(request).result
        if result is None or result.id != request.path_params["match"]:
            raise HTTPException(409, "this match is no longer kept; match the photos again")
        return result


def _side(request: Request) -> Side:
    side = request.path_params["side"]
    if side not in SIDES:
        raise HTTPException(404, "there are two photos: source and target")
    return cast(Side, side)


def _described(photo: Photo) -> dict[str, Any]:
    width, height = photo.original.size
    return {"id": photo.id, "name": photo.name, "width": width, "height": height}


def _encoded(picture: Image.Image, kind: str) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, kind)
    return stream.getvalue()
