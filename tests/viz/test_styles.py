"""The styles of ``match.draw``: what they show, worked out by hand, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from dhpf import InputError
from dhpf.viz import canvas
from dhpf.viz.canvas import GAP, HEIGHT, WIDEST, Pen
from dhpf.viz.colours import LEFTWARD, NEUTRAL, RIGHT, RIGHTWARD, STILL, WRONG, colours, wheel_colours
from dhpf.viz.styles import STYLES, check_style_of_any_pair
from tests.viz.scenes import POINTS, HandMade, blank, draw, scene

SCALE = HEIGHT / 64  # of images of 64 x 64 pixels


def pixels(picture: Image.Image) -> NDArray[np.int64]:
    return np.asarray(picture).astype(np.int64)


def near(found: NDArray[np.int64], colour: Any, levels: int = 3) -> bool:
    return bool(np.abs(found - np.array(colour)).max() <= levels)


def at(picture: NDArray[np.int64], x: float, y: float, panel: int = 0) -> NDArray[np.int64]:
    """The colour at a location of an image of 64 x 64 pixels."""
    column, row = round((x + 0.5) * SCALE - 0.5), round((y + 0.5) * SCALE - 0.5)
    return np.asarray(picture[row, column + panel * (HEIGHT + GAP)])


def same(source: Image.Image | None = None, target: Image.Image | None = None, **about: Any) -> HandMade:
    """Points stay where they are, in images of 64 x 64 pixels."""
    return HandMade(source or blank(64, 64), target or blank(64, 64), **about)


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All that is written on drawings."""
    found: list[str] = []
    real = canvas.write

    def keep(draw: Any, location: Any, text: str, *rest: Any, **look: Any) -> None:
        found.append(text)
        real(draw, location, text, *rest, **look)

    monkeypatch.setattr(canvas, "write", keep)
    return found


def test_lines_are_coloured_by_a_fixed_scale() -> None:
    """The same confidence has the same colour, whatever else is in the picture."""
    match = same(shift=(8, 0), confident=lambda x, y: np.where(y < 20, 0.75, 0.25))
    sure, unsure = colours(np.array([0.75, 0.25]))
    for points in ([[16, 12]], [[16, 12], [40, 52]]):
        picture = pixels(draw(match, points))
        assert near(at(picture, 16, 12), sure)
        assert near(at(picture, 24, 12, panel=1), sure)
    assert near(at(picture, 40, 52), unsure)
    assert near(at(picture, 48, 52, panel=1), unsure)
    assert near(at(picture, 5, 30), (128, 128, 128))  # untouched


def test_matches_outside_the_target_are_drawn_at_its_edge() -> None:
    picture = pixels(draw(same(shift=(40, 0)), [[40, 30]]))
    assert near(at(picture, 63.4, 30, panel=1), colours(0.5))


def test_truth_tells_right_from_wrong() -> None:
    # Two points stay where they are; one belongs 3 pixels, the other 10 pixels away; 5 are allowed.
    picture = pixels(draw(same(), [[20, 16], [20, 48]], "truth", truth=[[23, 16], [30, 48]], threshold=5))
    assert near(at(picture, 20, 16), NEUTRAL)  # on the source
    assert near(at(picture, 20, 16, panel=1), RIGHT)
    assert near(at(picture, 20, 48, panel=1), WRONG)
    assert near(at(picture, 27, 48, panel=1), WRONG, levels=30)  # on the thin line to the truth
    assert near(at(picture, 20, 10, panel=1), (128, 128, 128))
    for x, y in ((23, 16), (30, 48)):  # the circles of 5 pixels, at their lowest location
        assert max(at(picture, x, y + 5 + step, panel=1).min() for step in (-0.1, 0, 0.1)) > 220
        assert near(at(picture, x, y + 3.5, panel=1), (128, 128, 128))


def test_truth_allows_a_tenth_of_the_longer_side_unless_told(words: list[str]) -> None:
    match = same(target=blank(300, 200), linear=((5, 0), (0, 3)))
    draw(match, [[30, 32], [15, 16]], "truth", truth=[[150, 125], [75, 80]])  # matches: (150, 96), (75, 48)
    assert words[-4:-1] == ["true location, 30 px around it", "1 within", "1 beyond"]
    assert words[-1].startswith("mean error 30.5 px")


def test_lengths_are_written_for_people(words: list[str]) -> None:
    match = same(target=blank(20000, 100), shift=(10000, 0))
    draw(match, [[32, 32]], "truth", truth=[[11266.56, 32]])
    assert words[1:5] == ["1", "true location, 2000 px around it", "1 within", "0 beyond"]
    assert words[5].startswith("mean error 1235 px")


def test_truth_outside_the_image_is_drawn_as_far_as_it_is_inside() -> None:
    picture = pixels(draw(same(), [[2, 32]], "truth", truth=[[-3, 32]], threshold=6))
    assert (picture[:HEIGHT, HEIGHT + 1 : HEIGHT + GAP - 1] > 250).all()  # nothing between the images
    assert near(at(picture, 0.5, 32, panel=1), RIGHT, levels=30)  # the line to the truth


def test_warp_shows_the_warped_source_the_target_and_half_of_each() -> None:
    moved = same(blank(64, 64, "#c83214"), blank(64, 64, "#6496c8"), shift=(16, 0))
    picture = pixels(draw(moved, [[x, y] for x in range(4, 44, 8) for y in range(4, 64, 8)], "warp"))
    assert picture.shape[1] == 3 * HEIGHT + 2 * GAP
    assert near(at(picture, 40, 30), (200, 50, 20))
    assert near(at(picture, 8, 30), (225, 225, 225))  # what lies outside the source
    assert near(at(picture, 40, 30, panel=1), (100, 150, 200))
    assert near(at(picture, 40, 30, panel=2), (150, 100, 110))
    assert near(at(picture, 8, 30, panel=2), (100, 150, 200))


def test_flow_is_coloured_by_its_direction(words: list[str]) -> None:
    picture = pixels(draw(same(shift=(12, 0)), style="flow"))
    assert words[:3] == ["source", "where it moves", "radius 12 px, inner 6 px"]
    assert near(at(picture, 20, 30), (128, 128, 128))
    assert near(at(picture, 20, 30, panel=1), STILL + RIGHTWARD)
    wheel = picture[:HEIGHT, 2 * (HEIGHT + GAP) :]
    side = wheel.shape[1]
    centre = HEIGHT - side // 2, side // 2
    assert near(wheel[centre], STILL, levels=6)
    quarter = side // 4 + side // 8
    assert near(wheel[centre[0], centre[1] + quarter], STILL + RIGHTWARD * 2 * quarter / (side - 8), levels=6)
    assert near(wheel[centre[0], centre[1] - quarter], STILL + LEFTWARD * 2 * quarter / (side - 8), levels=6)


def test_a_flow_of_nothing_is_grey(words: list[str]) -> None:
    assert near(at(pixels(draw(same(), style="flow")), 30, 30, panel=1), STILL)
    assert words[2] == "radius 1 px, inner 0.5 px"


def test_single_wrong_matches_do_not_set_the_scale_of_the_flow(words: list[str]) -> None:
    class OneCornerGoesAstray(HandMade):
        def transfer(self, points: Any) -> NDArray[np.float64]:
            given = np.asarray(points)
            return np.asarray(given + np.where(given.max(axis=1, keepdims=True) < 6, 50.0, [4.0, 0.0]))

    draw(OneCornerGoesAstray(blank(64, 64), blank(64, 64)), style="flow")  # 1 percent of the pixels
    assert words[2] == "radius 4 px, inner 2 px"


def test_the_wheel_by_hand() -> None:
    assert wheel_colours(np.array([[0, 0], [1, 0], [2, 0], [-0.5, 0]])).tolist() == [
        [120, 120, 120],
        [245, 170, 0],
        [245, 170, 0],  # beyond the edge
        [65, 118, 175],
    ]
    assert wheel_colours(np.array([[0, -1], [0, 1]])).tolist() == [[240] * 3, [20] * 3]


def test_heat_is_highest_where_the_scores_are(words: list[str]) -> None:
    """The scores' highest cell, column 5 and row 3, has its centre at (20, 12)."""
    match = scene()
    match.target = blank(64, 48)
    picture = pixels(draw(match, POINTS[4:], "heat"))
    target = picture[:HEIGHT, 640 + GAP :].sum(axis=-1)
    assert match.transfer(POINTS[4:]).tolist() == [[43.5, 39.5]]
    target[300:, 350:] = 0  # without the ring, which is there
    row, column = np.unravel_index(target.argmax(), target.shape)
    assert abs(column - (20.5 * 10 - 0.5)) < 2 and abs(row - (12.5 * 10 - 0.5)) < 2
    assert words[2:4] == ["confidence 0", "0.5"]


def luminance(picture: Image.Image) -> NDArray[np.float64]:
    share = np.asarray(picture) / 255
    linear = np.where(share <= 0.04, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    return np.asarray(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("shade", range(0, 256, 51))
@pytest.mark.parametrize("mark", ["line", "dot", "diamond", "ring", "label"])
@pytest.mark.parametrize("colour", [NEUTRAL, RIGHT, WRONG, tuple(colours(0.5).tolist())])
def test_marks_stand_out_from_any_image(mark: str, colour: Any, shade: int) -> None:
    """Some pixels of a mark have the contrast that the accessibility guidelines (WCAG) ask for, 3 to 1."""
    picture = Image.new("RGB", canvas.enlarged((60, 60)), (shade, shade, shade))
    pen = Pen(picture)
    draw = {
        "line": lambda: pen.line((10, 10), (50, 50), colour),
        "dot": lambda: pen.dot((30, 30), colour),
        "diamond": lambda: pen.diamond((30, 30), colour),
        "ring": lambda: pen.ring((30, 30), 10),
        "label": lambda: pen.labels(np.array([[30.0, 30]]), ["8"], (60, 60)),
    }
    draw[mark]()
    found = luminance(canvas.shrunk(picture)) + 0.05
    ground = found[0, 0]
    contrast = np.maximum(found / ground, ground / found)
    assert (contrast >= 3).sum() >= 12


def test_labels_lie_inside_their_panel_and_not_on_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Points in the corners, on the sides and in the middle of a panel that begins at 100."""
    found: list[tuple[float, float, float, float]] = []

    def keep(draw: Any, location: Any, text: str, anchor: str, **look: Any) -> None:
        width, height = canvas.text_width(text), 10
        x = location[0] - (width if anchor[0] == "r" else 0)
        y = location[1] - (height if anchor[1] == "s" else 0)
        found.append((x, y, x + width, y + height))

    monkeypatch.setattr(canvas, "write", keep)
    near_corners = np.array([[x, y] for x in (102.0, 150, 197) for y in (2.0, 50, 97)])
    Pen(blank(600, 300)).labels(near_corners, [str(n) for n in range(10, 19)], (100, 100), 100)
    for index, (left, top, right, bottom) in enumerate(found):
        assert left >= 100 and top >= 0 and right <= 200 and bottom <= 100
        for other in found[:index]:
            apart = left >= other[2] or right <= other[0] or top >= other[3] or bottom <= other[1]
            assert apart


@pytest.mark.parametrize("style", STYLES)
def test_drawings_of_extreme_images_stay_small(style: str) -> None:
    long = HandMade(blank(4000, 8), blank(8, 4000), linear=((0, 1), (1, 0)))
    needed: dict[str, dict[str, Any]] = {
        "truth": {"points": [[3000, 4]], "truth": [[4, 3000]]},
        "heat": {"points": [[3000, 4]]},
    }
    picture = draw(long, style=style, **needed.get(style, {}))
    assert picture.width <= 3 * (WIDEST + GAP)
    assert picture.height <= HEIGHT + 120


@pytest.mark.parametrize(
    ("points", "options", "complaint"),
    [
        (
            None,
            {"style": "line"},
            "unknown style 'line': did you mean 'lines'? Known: lines, points, truth, warp",
        ),
        (None, {"style": "Heatmap"}, "did you mean 'heat'"),
        (None, {"style": "truth"}, "needs source points and where they belong in the target"),
        ([[1, 2]], {"style": "truth"}, "needs source points and where they belong"),
        (None, {"style": "truth", "truth": [[1, 2]]}, "needs source points and where they belong"),
        ([[1, 2]], {"style": "truth", "truth": [[1, 2], [3, 4]]}, "1 points, 2 true locations"),
        ([[1, 2]], {"style": "truth", "truth": [[1, np.nan]]}, "true location 1 is (1.0, nan)"),
        ([[1, 2]], {"style": "truth", "truth": [1, 2]}, "true locations have shape (2,); wanted (K, 2)"),
        ([[1, 2]], {"style": "truth", "truth": "here"}, "true locations must be numbers"),
        ([[1, 2]], {"style": "truth", "truth": [[1, 2]], "threshold": 0}, "threshold 0: wanted pixels"),
        ([[1, 2]], {"style": "truth", "truth": [[1, 2]], "threshold": np.nan}, "more than 0"),
        ([[1, 2]], {"truth": [[1, 2]]}, "style 'lines' shows no true locations; choose style 'truth'"),
        ([[1, 2]], {"style": "heat", "truth": [[1, 2]]}, "style 'heat' shows no true locations"),
        (None, {"threshold": 5}, "style 'lines' has no threshold"),
        (
            None,
            {"style": "heat"},
            "style 'heat' shows one source point: give exactly one in points, not none",
        ),
        ([[1, 2], [3, 4]], {"style": "heat"}, "exactly one in points, not 2"),
        ([], {"style": "heat"}, "exactly one in points, not 0"),
        ([[1, 2], [3, 4]], {"style": "warp"}, "a warp needs at least 3 points"),
        ([[65, 2]], {"style": "flow"}, "outside the source photo"),
    ],
)
def test_what_does_not_go_together(points: Any, options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError) as raised:
        draw(same(), points, **options)
    assert complaint in str(raised.value)
    assert "\n" not in str(raised.value)


def test_styles_for_many_pairs() -> None:
    for style in ("lines", "warp", "flow"):
        check_style_of_any_pair(style)
    for style in ("truth", "heat"):
        with pytest.raises(InputError, match=r"of one pair; for many choose lines, points, warp, flow"):
            check_style_of_any_pair(style)
    with pytest.raises(InputError, match=r"did you mean 'flow'"):
        check_style_of_any_pair("flows")
