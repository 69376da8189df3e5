"""The answers of the page: photos in, a match, then points, heat maps and pictures of it.

Photos and matches carry ids that change with them. A request names those that it means, so that two windows
of one browser, which share a session, never get answers about each other's photos.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache
from typing import Any, cast

import numpy as np
from PIL import Image, ImageOps
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..errors import InputError, unknown
from ..images import decode_image, read_image
from ..match import Match
from ..samples import PAIRS, sample_pair
from ..viz.colours import SCALE
from ..viz.lines import draw_lines
from .addresses import client_at
from .incoming import matches_in, names_in, photo_name, points_in, points_of_file, read_body, read_json
from .jobs import Jobs
from .limits import Limits, Supply
from .models import Models
from .sessions import SIDES, Photo, Result, Session, Sessions, Side, encoded, prepare

VIEWS = {"lines": True, "warp": False, "flow": False, "heat": True}  # and whether they show the points
SWEEP_SECONDS = 30.0
THUMBNAIL_SIDE = 80  # pixels, twice what is shown, for fine screens


class Page:
    """What the answers share."""

    def __init__(self, models: Models, limits: Limits, cookie: str, has_review: bool = False) -> None:
        self.models = models
        self.has_review = has_review
        self.limits = limits
        self.cookie = cookie
        self.jobs = Jobs(limits.jobs)
        self.incoming = Supply(limits.incoming_bytes)
        self.sessions = Sessions(limits)

    def routes(self) -> list[Route]:
        """Every address that is answered, but for the static files."""
        return [
            Route("/api/setup", self.setup, methods=["GET"]),
            Route("/api/samples/{pair}", self.sample, methods=["GET"]),
            Route("/api/sample", self.take_sample, methods=["POST"]),
            Route("/api/photos/{side}", self.take_photo, methods=["PUT"]),
            Route("/api/photos/{photo}", self.photo, methods=["GET"]),
            Route("/api/match", self.match, methods=["POST"]),
            Route("/api/match/{match}/suggestions", self.suggestions, methods=["GET"]),
            Route("/api/match/{match}/points", self.points, methods=["POST"]),
            Route("/api/match/{match}/file", self.points_file, methods=["PUT"]),
            Route("/api/match/{match}/reverse", self.reverse, methods=["POST"]),
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
        self.jobs.close()

    async def setup(self, request: Request) -> Response:
        """What there is to choose from, and what this visitor chose before the page was loaded again."""
        session = self.sessions.find(request.cookies.get(self.cookie))
        result = session.result if session else None
        return JSONResponse(
            {
                "models": self.models.described(),
                "samples": list(PAIRS),
                "review": self.has_review,
                "limits": {"upload_bytes": self.limits.upload_bytes, "points": self.limits.points},
                "scale": SCALE.tolist(),
                "photos": _described(session.photos if session else {}),
                "match": result.described() if result else None,
            }
        )

    async def sample(self, request: Request) -> Response:
        """A small picture of a sample pair."""
        return Response(_thumbnail(request.path_params["pair"]), media_type="image/jpeg")

    async def take_photo(self, request: Request) -> Response:
        """The bytes of a photo's file -> its id and size."""
        side, name, client = request.path_params["side"], photo_name(request), client_of(request)
        if side not in SIDES:
            raise HTTPException(404, "there are two photos: source and target")
        self.jobs.places.check(client)  # before the bytes come, which may take long and hold no place
        with self.incoming.drawn(client) as take:
            data = await read_body(request, self.limits.upload_bytes, self.limits.body_seconds, take)
            photo = await self.jobs.run(client, lambda: prepare(name, decode_image(data, name)))
        return self._keep(request, {cast(Side, side): photo})

    async def take_sample(self, request: Request) -> Response:
        """The name of a sample pair -> ids and sizes of both photos."""
        paths = sample_pair(str((await read_json(request, self.limits)).get("pair")))

        def work() -> dict[Side, Photo]:
            photos = [prepare(path.name, read_image(path)) for path in paths]
            return dict(zip(SIDES, photos, strict=True))

        return self._keep(request, await self.jobs.run(client_of(request), work))

    async def photo(self, request: Request) -> Response:
        """A photo as it is shown."""
        for photo in self._session(request).photos.values():
            if photo.id == request.path_params["photo"]:
                return Response(photo.jpeg, media_type="image/jpeg")
        raise HTTPException(404, "that photo is no longer kept; choose it again")

    async def match(self, request: Request) -> Response:
        """Ids of both photos and the name of a model -> the id of their match, and the chosen layers."""
        session = self._session(request)
        content = await read_json(request, self.limits)
        name = self.models.check(content.get("model", self.models.default))
        ids = [content.get(side) for side in SIDES]

        def work() -> Result:
            source, target = session.pair(ids)
            matcher = self.models.matcher(name)
            match = matcher.match(source.original, target.original)
            return Result.of(match, source, target, len(matcher.method.backbone.channels))

        result = await self.jobs.run(client_of(request), work)
        session.photos = dict(zip(SIDES, session.pair(ids), strict=True))  # perhaps swapped
        session.result = result
        self.sessions.sweep()
        return JSONResponse(result.described())

    async def suggestions(self, request: Request) -> Response:
        """Confident points of the source photo."""
        return JSONResponse({"points": np.round(self._result(request).match.keypoints(), 1).tolist()})

    async def points(self, request: Request) -> Response:
        """Points of the source photo -> what ``Match.to_dict`` says of them."""
        content = await read_json(request, self.limits)
        match = self._result(request).match
        return JSONResponse(match.to_dict(points_in(content, match.source.size, self.limits)))

    async def points_file(self, request: Request) -> Response:
        """The bytes of a file of points -> points of the source photo, and their names, if they have any."""
        name, size = photo_name(request), self._result(request).match.source.size
        photo = self._session(request).photos["source"].name
        content = await read_body(request, self.limits.points_bytes, self.limits.body_seconds)
        points, names = await asyncio.to_thread(points_of_file, content, name, photo)
        points_in({"points": points}, size, self.limits)
        return JSONResponse({"points": points, "names": names})

    async def reverse(self, request: Request) -> Response:
        """Points of the target photo -> where they lie on the source, and how sure that is."""
        content = await read_json(request, self.limits)
        session, id_ = self._session(request), request.path_params["match"]
        points = points_in(content, session.match(id_).match.target.size, self.limits)

        def work() -> Match:
            known = session.match(id_)
            if known.reverse is not None:  # another click was faster
                return known.reverse
            source, target = known.match.target, known.match.source
            found = self.models.matcher(known.match.model).match(source, target, scores=False)
            return replace(found, source=source, target=target)  # no copies

        match = session.match(id_).reverse
        if match is None:
            match = await self.jobs.run(client_of(request), work)
            session.result = replace(session.match(id_), reverse=match)
            self.sessions.sweep()
        landed = match.transfer(points).clip(-0.5, np.array(match.target.size) - 0.5)
        found = {
            "points": landed.round(3).tolist(),
            "confidence": match.confidence_at(points).round(6).tolist(),
        }
        return JSONResponse(found)

    async def heat(self, request: Request) -> Response:
        """One point of the source photo -> how well each cell of the target fits it, and where these lie."""
        content = await read_json(request, self.limits)
        match = self._result(request).match_for("heat")
        points = points_in(content, match.source.size, self.limits)
        if len(points) != 1:
            raise InputError(f"a heat map is of one point; {len(points)} were given")
        scores = np.round(match.scores(points[0]).astype(float), 5).tolist()
        return JSONResponse({"scores": scores, **_target_cells(match)})

    async def warped(self, request: Request) -> Response:
        """The source photo warped onto the target."""
        return await self._drawn(request, "JPEG", lambda result: result.view.warp())

    async def picture(self, request: Request) -> Response:
        """A view and points -> the drawing of it, as PNG.

        For lines, also the points' names, and their matches as the person corrected them.
        """
        content = await read_json(request, self.limits)
        if (style := str(content.get("view"))) not in VIEWS:
            raise unknown("view", style[:80], VIEWS)
        size = self._result(request).match_for(style).source.size
        points = points_in(content, size, self.limits) if VIEWS[style] else None
        count = 0 if points is None else len(points)
        names, matches = names_in(content, count), matches_in(content, count)

        def draw(result: Result) -> Image.Image:
            match = result.view if style == "warp" else result.match  # all pixels of a large photo take long
            if style == "lines" and points is not None:
                return draw_lines(match, points, names, matches)
            return match.draw(points, style=style)

        return await self._drawn(request, "PNG", draw)

    async def forget(self, request: Request) -> Response:
        """Forget the photos of this session."""
        self.sessions.drop(request.cookies.get(self.cookie))
        response = Response(status_code=204)
        response.delete_cookie(self.cookie, httponly=True, samesite="strict")
        return response

    async def _drawn(self, request: Request, kind: str, draw: Callable[[Result], Image.Image]) -> Response:
        """A picture of the match, which may be forgotten while this waits for its turn."""
        session, match = self._session(request), request.path_params["match"]
        drawn = await self.jobs.run(client_of(request), lambda: encoded(draw(session.match(match)), kind))
        return Response(drawn, media_type=f"image/{kind.lower()}")

    def _keep(self, request: Request, photos: dict[Side, Photo]) -> Response:
        """Put photos into the session, a new one if need be."""
        key = request.cookies.get(self.cookie)
        session = self.sessions.find(key)
        if session is None:
            key, session = self.sessions.start(client_of(request))
        session.put(photos)
        self.sessions.sweep()
        response = JSONResponse(_described(photos))
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
        return self._session(request).match(request.path_params["match"])


@cache
def _thumbnail(pair: str) -> bytes:
    """Both photos of a sample pair side by side, cut to squares."""
    picture = Image.new("RGB", (2 * THUMBNAIL_SIDE, THUMBNAIL_SIDE))
    for place, path in enumerate(sample_pair(pair)):
        square = ImageOps.fit(read_image(path), (THUMBNAIL_SIDE, THUMBNAIL_SIDE))
        picture.paste(square, (place * THUMBNAIL_SIDE, 0))
    return encoded(picture, "JPEG")


def client_of(request: Request) -> str:
    """Who asks, for limits."""
    return client_at(request.client.host if request.client else "")


def _described(photos: dict[Side, Photo]) -> dict[Side, Any]:
    return {side: photo.described() for side, photo in photos.items()}


def _target_cells(match: Match) -> dict[str, list[float]]:
    """Corner of the first cell and size of each, x then y, as fractions of the target photo.

    A cell reaches half a stride to each side of its centre; the photo begins half a pixel before its first.
    """
    size, grid = np.array(match.size), match.target_grid
    corner = (grid.offset + 0.5 - grid.stride / 2) / size
    return {"corner": corner.tolist(), "cell": (grid.stride / size).tolist()}
