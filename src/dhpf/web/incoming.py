"""What a browser sends -> bytes, points and names that can be used, or an error that says what is wrong."""

from __future__ import annotations

import asyncio
import json
import reprlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from starlette.exceptions import HTTPException
from starlette.requests import Request

from ..annotate.photo_points import read_photo_points
from ..errors import InputError
from ..points import NamedPoints, Points, check_points
from .limits import Limits

NAME_LENGTH = 80
FARTHEST = 1e6  # pixels; a match beyond that is a mistake
POINT_FILES = (".json", ".csv", ".xml")


async def read_body(
    request: Request, most: int, seconds: float, take: Callable[[int], None] = lambda count: None
) -> bytes:
    """The request's body, unless it is larger than ``most`` bytes or takes too long.

    ``take`` is told of the bytes as they come, and may refuse them.
    """
    too_large = HTTPException(413, f"that is too large: at most {_size(most)}; make it smaller first")

    async def read() -> bytes:
        body = bytearray()
        async for chunk in request.stream():
            take(len(chunk))
            body += chunk
            if len(body) > most:
                raise too_large
        return bytes(body)

    announced = request.headers.get("content-length", "0")
    if announced.isdecimal() and int(announced) > most:
        raise too_large
    try:
        return await asyncio.wait_for(read(), seconds)
    except asyncio.TimeoutError:
        raise HTTPException(408, "sending took too long; try again") from None


async def read_json(request: Request, limits: Limits) -> dict[str, Any]:
    """The request's body as a JSON object."""
    body = await read_body(request, limits.json_bytes, limits.body_seconds)
    try:
        content = json.loads(body)
        json.dumps(content, ensure_ascii=False).encode()  # fails for half a character, which is no text
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise InputError("wanted a JSON object")
    return content


def points_in(content: dict[str, Any], size: tuple[int, int], limits: Limits) -> Points:
    """The "points" of a JSON object, (K, 2), x then y, in pixels of a photo of that size."""
    points = content.get("points")
    if not isinstance(points, list):
        raise InputError("wanted 'points', a list of [x, y] pairs")
    if len(points) > limits.points:
        raise InputError(f"{len(points)} points are too many: at most {limits.points}")
    for number, point in enumerate(points, start=1):
        if not (isinstance(point, list) and [type(value) in (int, float) for value in point] == [True, True]):
            raise InputError(f"point {number} is {reprlib.repr(point)}; wanted two finite numbers, x and y")
    return check_points(points, size)


def matches_in(content: dict[str, Any], count: int) -> Points | None:
    """The "matches" of a JSON object, if it has any: (K, 3), x, y and confidence of each point's match."""
    matches = content.get("matches")
    if matches is None:
        return None
    try:
        array = np.array(matches or np.zeros((0, 3)), np.float64)
        good = array.shape == (count, 3) and bool((np.abs(array) <= FARTHEST).all())
    except (TypeError, ValueError, OverflowError):
        good = False
    if not good or not ((array[:, 2] >= 0) & (array[:, 2] <= 1)).all():
        raise InputError("wanted 'matches', an [x, y, confidence] for each point, the confidence from 0 to 1")
    return array


def names_in(content: dict[str, Any], count: int) -> list[str] | None:
    """The "names" of a JSON object, if it has any: a line of text for each point."""
    names = content.get("names")
    if names is None:
        return None
    if not isinstance(names, list) or len(names) != count or not all(isinstance(name, str) for name in names):
        raise InputError("wanted 'names', a text for each point")
    return [_in_one_line(name) for name in names]


def points_of_file(content: bytes, name: str, photo: str) -> NamedPoints:
    """The points of a file as ``dhpf match --points`` takes it, about a photo of that name.

    The readers want a file: it is a temporary one, which is gone when this returns.
    """
    ending = Path(name).suffix.lower()
    if ending not in POINT_FILES:
        raise InputError(f"{name} is no file of points by its ending; wanted {', '.join(POINT_FILES)}")
    with tempfile.TemporaryDirectory(prefix="dhpf-") as folder:
        file = Path(folder) / f"points{ending}"
        file.write_bytes(content)
        try:
            return read_photo_points(file, Path(photo))
        except InputError as error:
            raise InputError(str(error).replace(str(file), name)) from None


def photo_name(request: Request) -> str:
    """What the person calls the photo, to be used in sentences only."""
    given = request.query_params.get("name", "")
    return _in_one_line(given) or "the photo"


def _in_one_line(text: str) -> str:
    return "".join(sign for sign in text if sign.isprintable())[:NAME_LENGTH].strip()


def _size(count: int) -> str:
    return f"{count / 2**20:.3g} MB" if count >= 2**20 else f"{count / 2**10:.3g} kB"
