"""Drawings against golden pictures, in every style; and the proof that the comparison sees what matters."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import patch

import numpy as np
import pytest
from PIL import Image

from dhpf.viz import colours
from tests.viz.scenes import DRAWINGS, GOLDEN, OFF, POINTS, HandMade, draw, scene, small_and_wordless

# Of 255. The scene is exact, so only the solution of the spline, the lengths of the flow and their mixtures
# can round to the next level; shrinking mixes and rounds once more.
TOLERANCE = 2

WORDS = {
    "lines": ["confidence 0", "1", "5 matches   by hand   layers 2, 7", *(["1", "2", "3", "4", "5"] * 2)],
    "points": ["confidence 0", "1", "5 points   by hand   layers 2, 7", "1", "2", "3", "4", "5"],
    "truth": [
        *(["1", "2", "3", "4", "5"] * 2),
        "true location, 5 px around it",
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
    "flow": ["source", "where it moves", "radius 12.8 px, inner 6.41 px", "by hand   layers 2, 7"],
    "heat": [
        "source, and the point",
        "target, and where it fits",
        "confidence 0",
        "0.5",
        "by hand   layers 2, 7",
    ],
}


def golden(style: str) -> Image.Image:
    with Image.open(GOLDEN / f"{style}.png") as picture:
        return picture.convert("RGB")


def difference(found: Image.Image, expected: Image.Image) -> int:
    """The largest, of any pixel in any channel."""
    assert found.size == expected.size
    a, b = (np.asarray(picture, np.int64) for picture in (found, expected))
    return int(np.abs(a - b).max())


@pytest.mark.parametrize("style", DRAWINGS)
def test_a_drawing_is_its_golden_picture(style: str) -> None:
    with small_and_wordless():
        assert difference(DRAWINGS[style](scene()), golden(style)) <= TOLERANCE


@pytest.mark.parametrize("style", DRAWINGS)
def test_the_words_of_a_drawing(style: str) -> None:
    with small_and_wordless() as words:
        DRAWINGS[style](scene())
    assert words == WORDS[style]


@pytest.mark.parametrize("style", DRAWINGS)
def test_without_layers_none_are_named(style: str) -> None:
    match = scene()
    match.layers = None
    with small_and_wordless() as words:
        DRAWINGS[style](match)
    assert words == [text.replace("   layers 2, 7", "") for text in WORDS[style]]


def shifted_source(match: HandMade) -> HandMade:
    match.source = match.source.transform(match.source.size, Image.Transform.AFFINE, (1, 0, 1, 0, 1, 0))
    return match


ONE_MOVED = POINTS + np.array([[0, 0.5], [0, 0], [0, 0], [0, 0], [0, 0]])
TRUTH_MOVED = OFF + np.array([[0, 0], [0, 0], [0, 0.5], [0, 0], [0, 0]])
MOVED: dict[str, Callable[[HandMade], Image.Image]] = {
    "lines": lambda match: draw(match, ONE_MOVED),
    "points": lambda match: draw(match, ONE_MOVED, "points"),
    "truth": lambda match: draw(
        match, POINTS, "truth", truth=match.transfer(POINTS) + TRUTH_MOVED, threshold=5
    ),
    "warp": lambda match: DRAWINGS["warp"](shifted_source(match)),
    "flow": lambda match: draw(match, ONE_MOVED[:1], "flow"),
    "heat": lambda match: draw(match, ONE_MOVED[:1], "heat"),
}


@pytest.mark.parametrize("style", DRAWINGS)
def test_a_mark_that_moves_by_one_pixel_is_seen(style: str) -> None:
    """One pixel of the drawing is half of one of the image."""
    with small_and_wordless():
        assert difference(MOVED[style](scene()), golden(style)) > 10 * TOLERANCE


OTHER_COLOURS = {
    "lines": ("colours.SCALE", np.clip(np.add(colours.SCALE, (0, 15, 0)), 0, 255)),
    "points": ("colours.SCALE", np.clip(np.add(colours.SCALE, (0, 15, 0)), 0, 255)),
    "truth": ("truth.RIGHT", (101, 180, 233)),
    "warp": ("warp.OUTSIDE", 210),
    "flow": ("colours.LEFTWARD", np.add(colours.LEFTWARD, (0, 15, 0))),
    "heat": ("colours.SCALE", np.clip(np.add(colours.SCALE, (15, 0, 0)), 0, 255)),
}


@pytest.mark.parametrize("style", DRAWINGS)
def test_another_colour_is_seen(style: str) -> None:
    name, other = OTHER_COLOURS[style]
    with small_and_wordless(), patch(f"dhpf.viz.{name}", other):
        assert difference(DRAWINGS[style](scene()), golden(style)) > 3 * TOLERANCE


def test_golden_pictures_are_small() -> None:
    assert sorted(path.stem for path in GOLDEN.iterdir()) == sorted(DRAWINGS)
    assert all(path.stat().st_size < 20_000 for path in GOLDEN.iterdir())
