"""The best and the worst pairs as pictures: source points, predictions and truths on the images."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from ..data.annotations import points_out
from ..errors import InputError
from ..grid import resize_points
from ..images import read_image
from .metrics import measure, within
from .predictions import Predictions
from .score import ALPHA, Score

SIDE = 480  # pixels of an image's longer side in the report
RADIUS = 5  # of a dot
QUALITY = 85  # of the JPEG
FOLDERS = ("", "JPEGImages", "101_ObjectCategories")  # where the official layouts keep images
BLANK, BLACK, BLUE, RED, WHITE = "#73726b", "#1c1c1a", "#2667c9", "#d1431f", "#ffffff"


def rank(score: Score) -> list[int]:
    """Pairs from best to worst: by the mean error in threshold lengths, or by IoU."""
    if score.predictions.kind == "polygons":
        badness = -score.pair_values[:, -1]
    else:
        measured = (measure(pair, score.protocol) for pair in score.predictions.pairs())
        badness = np.array([errors.mean() / max(length, 1e-9) for errors, length in measured])
    return [int(index) for index in np.argsort(badness, kind="stable")]  # NaN, no prediction, comes last


def draw_pair(score: Score, index: int, root: Path | None) -> tuple[str, str, int]:
    """Source and target as data addresses, and how many of their images are not below ``root``."""
    pair = score.predictions.pair(index)
    source, target = (_find(root, name, pair.category) for name in (pair.source_image, pair.target_image))
    points, guesses, truths = map(np.asarray, (pair.source_points, pair.predicted_points, pair.target_points))
    if score.predictions.kind == "polygons":
        points, guesses, truths = (np.vstack([corners, corners[:1]]) for corners in (points, guesses, truths))
        first = _picture(source, pair.source_size, [points], [WHITE])
        second = _picture(target, pair.target_size, [guesses, truths], [BLUE, WHITE])
    else:
        right = within(*measure(pair, score.protocol), [ALPHA], score.protocol.compare)[0]
        colours = [BLUE if each else RED for each in right]
        joined = list(np.stack([guesses, truths], axis=1))
        first = _picture(source, pair.source_size, list(points[:, None]), [BLACK] * len(points))
        second = _picture(target, pair.target_size, joined, colours)
    return first, second, (source is None) + (target is None)


def image_files(predictions: Predictions, root: Path) -> Iterator[Path]:
    """Where the images of all pairs may be below the data set's folder."""
    for names in (predictions.source_images, predictions.target_images):
        for name, category in {*zip(names.tolist(), predictions.categories.tolist(), strict=True)}:
            yield from _places(root, name, category)


def _places(root: Path, name: str, category: str) -> list[Path]:
    """Where the official layouts have an image.

    Whoever wrote the predictions chose the names: they must not lead out of the data set's folder.
    """
    if points_out(name) or points_out(category):
        return []
    return [root / folder / between / name for folder in FOLDERS for between in ("", category)]


def _find(root: Path | None, name: str, category: str) -> Image.Image | None:
    """The image, if it is where the official layouts have it."""
    for path in () if root is None else _places(root, name, category):
        try:
            if path.is_file():
                return read_image(path)
        except (InputError, OSError):  # not an image, or not even a possible name
            return None
    return None


def _picture(
    image: Image.Image | None,
    size: tuple[int, int],
    shapes: Sequence[NDArray[np.float64]],
    colours: Sequence[str],
) -> str:
    """The image, or a blank one, with coloured shapes, in pixels of the original of that size.

    One point (1, 2) is a numbered dot; two points are such a dot and a line from it; more are an outline.
    """
    shown = max(1, round(size[0] * SIDE / max(size))), max(1, round(size[1] * SIDE / max(size)))
    picture = (image or Image.new("RGB", (1, 1), BLANK)).resize(shown)
    draw = ImageDraw.Draw(picture)
    for number, (points, colour) in enumerate(zip(shapes, colours, strict=True), 1):
        places = resize_points(points, size, shown).clip(-SIDE, 2 * SIDE).tolist()
        places = [(x, y) for x, y in places if x == x and y == y]  # not NaN: there is a prediction
        if len(places) > 1:
            draw.line(places, colour, width=3)
        if len(points) == len(places) <= 2:
            draw_dot(draw, places[0], colour, number)
    return data_address(picture)


def draw_dot(
    draw: ImageDraw.ImageDraw, location: tuple[float, float], colour: str | tuple[int, ...], number: int
) -> None:
    """A dot and its number, on any image."""
    x, y = location
    draw.ellipse((x - RADIUS, y - RADIUS, x + RADIUS, y + RADIUS), colour, WHITE)
    where = x + RADIUS, y - RADIUS
    draw.text(where, str(number), WHITE, font_size=15, anchor="lb", stroke_width=2, stroke_fill=BLACK)


def data_address(picture: Image.Image) -> str:
    """A picture as an address, for pages that need no other file."""
    content = io.BytesIO()
    picture.save(content, "JPEG", quality=QUALITY, subsampling=0)
    return f"data:image/jpeg;base64,{base64.b64encode(content.getvalue()).decode('ascii')}"
