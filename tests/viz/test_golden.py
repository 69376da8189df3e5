"""Drawings against golden pictures, in every style; and the proof that the comparison sees what matters."""

from __future__ import annotations

import io
from collections.abc import Callable
from unittest.mock import patch

import numpy as np
import pytest
from PIL import Image

from dhpf import Match
from dhpf.viz import colours
from tests.viz.scenes import DRAWINGS, GOLDEN, OFF, POINTS, scene, small_and_wordless

TOLERANCE = 32  # of 255 levels, between means over 4 x 4 pixels

WORDS = {
    "lines": ["confidence 0 to 0.92", "5 matches   by hand   layers 2, 7"],
    "truth": [
        *(["1", "2", "3", "4", "5"] * 2),
        "true place, 5 px around it",
        "3 within",
        "2 beyond",
        # 2 ** 0.5, 13 ** 0.5, 4, 9 and 116 ** 0.5, divided by 5
        "mean error 5.76 px   by hand   layers 2, 7",
    ],
    "warp": [
        "source, warped",
        "target",
        "half of each",
        "thin-plate splines through 80 matches   by hand   layers 2, 7",
    ],
    "flow": ["source", "where it moves", "radius 16.1 px, inner 8.06 px", "by hand   layers 2, 7"],
    "heat": [
        "source, and the point",
        "target, and where it fits",
        "confidence 0 to 0.53",
        "by hand   layers 2, 7",
    ],
}


def golden(style: str) -> Image.Image:
    with Image.open(GOLDEN / f"{style}.png") as picture:
        return picture.convert("RGB")


def drawn(style: str) -> Image.Image:
    with small_and_wordless():
        return DRAWINGS[style](scene())


def difference(found: Image.Image, expected: Image.Image) -> int:
    """The largest, in any channel, between means over 4 x 4 pixels."""
    assert found.size == expected.size
    a, b = (np.asarray(picture.reduce(4), np.int64) for picture in (found, expected))
    return int(np.abs(a - b).max())


@pytest.mark.parametrize("style", DRAWINGS)
def test_a_drawing_is_its_golden_picture(style: str) -> None:
    assert difference(drawn(style), golden(style)) <= TOLERANCE


@pytest.mark.parametrize("style", DRAWINGS)
def test_the_words_of_a_drawing(style: str) -> None:
    with small_and_wordless() as words:
        DRAWINGS[style](scene())
    assert words == WORDS[style]


def noisy(picture: Image.Image) -> Image.Image:
    pixels = np.asarray(picture, np.int64)
    noise = np.random.default_rng(0).integers(-4, 5, pixels.shape)
    return Image.fromarray(np.clip(pixels + noise, 0, 255).astype(np.uint8))


def compressed(picture: Image.Image) -> Image.Image:
    content = io.BytesIO()
    picture.save(content, "JPEG", quality=90)
    return Image.open(content)


def nudged(picture: Image.Image) -> Image.Image:
    """By a quarter of a pixel."""
    matrix = (1, 0, 0.25, 0, 1, 0)
    return picture.transform(picture.size, Image.Transform.AFFINE, matrix, Image.Resampling.BICUBIC)


@pytest.mark.parametrize("change", [noisy, compressed, nudged])
@pytest.mark.parametrize("style", DRAWINGS)
def test_what_libraries_may_differ_in_is_tolerated(
    style: str, change: Callable[[Image.Image], Image.Image]
) -> None:
    assert difference(change(drawn(style)), golden(style)) <= TOLERANCE


def shifted_photo(match: Match) -> Match:
    """The source photo's contents three pixels of the drawing, which are 1.5 of the photo, to the left."""
    matrix = (1, 0, 1.5, 0, 1, 0)
    size, bicubic = match.source.size, Image.Resampling.BICUBIC
    moved = match.source.transform(size, Image.Transform.AFFINE, matrix, bicubic)
    object.__setattr__(match, "source", moved)
    return match


ONE_MOVED = POINTS + np.array([[0, 1.5], [0, 0], [0, 0], [0, 0], [0, 0]])
TRUTH_MOVED = OFF + np.array([[0, 0], [0, 0], [0, 1.5], [0, 0], [0, 0]])
MOVED: dict[str, Callable[[Match], Image.Image]] = {
    "lines": lambda match: match.draw(ONE_MOVED),
    "truth": lambda match: match.draw(
        POINTS, "truth", truth=match.transfer(POINTS) + TRUTH_MOVED, threshold=5
    ),
    "warp": lambda match: DRAWINGS["warp"](shifted_photo(match)),
    "flow": lambda match: match.draw(ONE_MOVED[:1], "flow"),
    "heat": lambda match: match.draw(ONE_MOVED[:1], "heat"),
}


@pytest.mark.parametrize("style", DRAWINGS)
def test_a_mark_that_moves_by_three_pixels_is_seen(style: str) -> None:
    with small_and_wordless():
        assert difference(MOVED[style](scene()), golden(style)) > TOLERANCE


OTHER_COLOURS = {
    "lines": ("colours.SCALE", np.clip(np.add(colours.SCALE, (0, 45, 0)), 0, 255)),
    "truth": ("truth.RIGHT", (136, 180, 233)),
    "warp": ("warp.OUTSIDE", 175),
    "flow": ("colours.LEFTWARD", np.add(colours.LEFTWARD, (0, 50, 0))),
    "heat": ("colours.SCALE", np.clip(np.add(colours.SCALE, (45, 0, 0)), 0, 255)),
}


@pytest.mark.parametrize("style", DRAWINGS)
def test_another_colour_is_seen(style: str) -> None:
    name, other = OTHER_COLOURS[style]
    with small_and_wordless(), patch(f"dhpf.viz.{name}", other):
        assert difference(DRAWINGS[style](scene()), golden(style)) > TOLERANCE


def test_golden_pictures_are_small() -> None:
    assert sorted(path.stem for path in GOLDEN.iterdir()) == sorted(DRAWINGS)
    assert all(path.stat().st_size < 10_000 for path in GOLDEN.iterdir())
