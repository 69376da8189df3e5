"""The answers of the page for a review: photos by their number, changes, predictions, files to download."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..annotate.annotations import FARTHEST
from ..annotate.formats import FORMATS, encode
from ..annotate.transfer import Annotator, View, see
from ..errors import InputError
from ..feature_cache import FeatureCache
from ..images import read_image
from ..viz.colours import SCALE
from .incoming import read_json
from .jobs import Jobs
from .limits import BusyError
from .review import ChangedMeanwhileError, Review
from .routes import Page, client_of
from .sessions import prepare

if TYPE_CHECKING:
    from ..annotate.annotations import LabelledObject
    from ..matcher import ImageFeatures

KEPT_PHOTOS = 32  # as they are shown, some 300 kB each
FEATURES_BYTES = 2**29  # of photos that are predicted again and again
PAUSE = 1.0  # seconds, while others keep the processor busy
ENDINGS = {"cvat": ".xml", "deeplabcut": ".csv", "csv": ".csv"}  # of formats that are not JSON

Done = TypeVar("Done")


class ReviewPage:
    """What the answers share."""

    def __init__(self, review: Review, page: Page) -> None:
        self.review, self.page = review, page
        self._pictures = Jobs(page.limits.jobs)  # so that photos need not wait for predictions
        self._disc = ThreadPoolExecutor(1, "dhpf-review")  # one change at a time
        self._features: FeatureCache[View, ImageFeatures] | None = None
        self._predicting: asyncio.Task[None] | None = None
        self._progress = {"done": 0, "total": 0, "failed": 0}

    def routes(self) -> list[Route]:
        """Every address that is answered."""
        return [
            Route("/api/review", self.overview, methods=["GET"]),
            Route("/api/review/photos/{index}", self.photo, methods=["GET"]),
            Route("/api/review/photos/{index}/image", self.image, methods=["GET"]),
            Route("/api/review/photos/{index}/point", self.move, methods=["POST"]),
            Route("/api/review/photos/{index}/confirm", self.confirm, methods=["POST"]),
            Route("/api/review/undo", self.undo, methods=["POST"]),
            Route("/api/review/predict", self.predict, methods=["POST"]),
            Route("/api/review/export/{format}", self.export, methods=["GET"]),
        ]

    def close(self) -> None:
        """Stop predicting; write what was predicted."""
        if self._predicting:
            self._predicting.cancel()
        self._pictures.close()
        self._disc.shutdown()
        self.review.save()
        self.review.close()

    async def overview(self, request: Request) -> Response:
        """All photos, in the order of the review, and what can be done with them."""
        review = self.review
        statuses = [photo.status for photo in review.photos[: review.count]]
        reviewed = [index for index, status in enumerate(statuses) if status == "reviewed"]
        running = self._predicting is not None and not self._predicting.done()
        return JSONResponse(
            {
                "order": review.order(),
                "status": statuses,
                "references": [*range(review.count, len(review.photos)), *reviewed],
                "can_undo": review.can_undo,
                "predicting": self._progress if running else None,
                "failed": self._progress["failed"],
                "file": review.path.name,
                "formats": list(FORMATS),
                "scale": SCALE.tolist(),
            }
        )

    async def photo(self, request: Request) -> Response:
        """A photo's objects."""
        return await self._described(self._index(request))

    async def image(self, request: Request) -> Response:
        """A photo as it is shown."""
        path = self.review.photos[self._index(request)].path
        jpeg = await self._pictures.run(client_of(request), lambda: _view(path))
        return Response(jpeg, media_type="image/jpeg")

    async def move(self, request: Request) -> Response:
        """An object, its keypoint, and where it is ("at", null if absent) -> the photo's objects."""
        index, content = self._index(request), await read_json(request, self.page.limits)
        number, keypoint = (_whole(content, key) for key in ("object", "keypoint"))
        at = content.get("at")
        numbers = isinstance(at, list) and [_is_number(value) for value in at] == [True, True]
        if "at" not in content or not (at is None or numbers):
            raise InputError(
                "wanted 'at', two finite numbers, x and y, or null for a keypoint that is absent"
            )
        version = _whole(content, "version")
        return await self._changed(index, lambda: self.review.move(index, version, number, keypoint, at))

    async def confirm(self, request: Request) -> Response:
        """Mark a photo as reviewed."""
        index, content = self._index(request), await read_json(request, self.page.limits)
        version = _whole(content, "version")
        return await self._changed(index, lambda: self.review.confirm(index, version))

    async def undo(self, request: Request) -> Response:
        """Take back the last change -> the objects of its photo."""
        return await self._described(await self._alone(self.review.undo))

    async def predict(self, request: Request) -> Response:
        """Predict anew what no person has looked at; begin again if that is under way."""
        references = await self._alone(self.review.references)
        if not references:
            raise InputError("there is nothing to predict from; confirm a photo first")
        if self._predicting:
            self._predicting.cancel()
        waiting = [index for index in self.review.order() if self.review.photos[index].status == "predicted"]
        self._progress = {"done": 0, "total": len(waiting), "failed": 0}

        def build() -> Annotator:
            matcher = self.page.models.matcher(self.page.models.default)
            if self._features is None:
                self._features = FeatureCache(lambda view: see(matcher, view), FEATURES_BYTES)
            return Annotator(matcher, references, features=self._features.get, cache_bytes=1)

        annotator = await self._patiently(build)
        self._predicting = asyncio.create_task(self._predict(annotator, waiting, self._progress))
        return JSONResponse(self._progress)

    async def export(self, request: Request) -> Response:
        """The annotations in a format; a header says what it cannot hold."""
        name = request.path_params["format"]
        content, lost = await self._alone(lambda: encode(self.review.annotations, name))
        file = f"{self.review.path.name.removesuffix('.json')}{ENDINGS.get(name, '.json')}"
        safe = "".join(
            sign if sign.isascii() and sign.isprintable() and sign not in '"\\' else "_" for sign in file
        )
        headers = {"Content-Disposition": f'attachment; filename="{safe}"', "Dhpf-Lost": "; ".join(lost)}
        return Response(content, media_type="application/octet-stream", headers=headers)

    async def _predict(self, annotator: Annotator, waiting: list[int], progress: dict[str, int]) -> None:
        review = self.review
        for index in waiting:
            photo = review.photos[index]
            try:
                if photo.status == "predicted":
                    objects = await self._patiently(partial(self._label, annotator, index))
                    await self._alone(partial(review.predict, index, photo.version, objects))
            except InputError:
                progress["failed"] += 1  # its prediction stays; the page shows why when it is opened
            progress["done"] += 1
        await self._alone(review.save)

    def _label(self, annotator: Annotator, index: int) -> list[LabelledObject]:
        path, size = self.review.photos[index].path, self.review.size(index)
        return [annotator.label(path, size, place) for place in self.review.places(index)]

    async def _patiently(self, work: Callable[[], Done]) -> Done:
        """Do heavy work as one client among others."""
        while True:
            try:
                return await self.page.jobs.run("review", work)
            except BusyError:
                await asyncio.sleep(PAUSE)

    async def _alone(self, work: Callable[[], Done]) -> Done:
        """Work with the disc, one piece at a time, away from the loop that answers others."""
        return await asyncio.get_running_loop().run_in_executor(self._disc, work)

    async def _changed(self, index: int, work: Callable[[], None]) -> Response:
        try:
            await self._alone(work)
        except ChangedMeanwhileError:
            raise HTTPException(409, "this photo was changed meanwhile; it is shown as it is now") from None
        return await self._described(index)

    def _index(self, request: Request) -> int:
        given = request.path_params["index"]
        known = given.isascii() and given.isdecimal() and len(given) < 9
        if not known or int(given) >= len(self.review.photos):
            raise HTTPException(404, "there is no such photo in this review")
        return int(given)

    async def _described(self, index: int) -> Response:
        photo = self.review.photos[index]
        width, height = await self._alone(lambda: self.review.size(index))
        described = {
            "index": index,
            "name": photo.image.file_name,
            "width": width,
            "height": height,
            "status": photo.status,
            "version": photo.version,
            "can_undo": self.review.can_undo,
            "objects": [
                {
                    "category": one.category.name,
                    "names": one.category.keypoints,
                    "keypoints": one.keypoints.round(3).tolist(),
                    "scores": None if one.scores is None else one.scores.round(4).tolist(),
                    "polygons": [polygon.round(2).tolist() for polygon in one.polygons],
                }
                for one in photo.image.objects
            ],
        }
        return JSONResponse(described)


@lru_cache(KEPT_PHOTOS)
def _view(path: Path) -> bytes:
    return prepare(path.name, read_image(path)).jpeg


def _whole(content: dict[str, Any], key: str) -> int:
    value = content.get(key)
    if type(value) is not int:
        raise InputError(f"wanted '{key}', a whole number")
    return value


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and abs(value) <= FARTHEST  # type: ignore[arg-type]
