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
from tests.test_match import blank, hand_made
from tests.viz.scenes import POINTS, scene

SCALE = HEIGHT / 64  # of photos of 64 x 64 pixels


def pixels(picture: Image.Image) -> NDArray[np.int64]:
    return np.asarray(picture).astype(np.int64)


def near(found: NDArray[np.int64], colour: Any, levels: int = 3) -> bool:
    return bool(np.abs(found - np.array(colour)).max() <= levels)


def at(picture: NDArray[np.int64], x: float, y: float, panel: int = 0) -> NDArray[np.int64]:
    """The colour at a place of a photo of 64 x 64 pixels."""
    return picture[round(y * SCALE), round(x * SCALE) + panel * (HEIGHT + GAP)]


def test_truth_tells_right_from_wrong() -> None:
    same = hand_made((64, 64), blank(64, 64), blank(64, 64))
    # Two points stay where they are; one belongs 3 pixels, the other 10 pixels away; 5 are allowed.
    picture = pixels(same.draw([[20, 16], [20, 48]], "truth", truth=[[23, 16], [30, 48]], threshold=5))
    assert near(at(picture, 20, 16), NEUTRAL)  # on the source
    assert near(at(picture, 20, 16, panel=1), RIGHT)
    assert near(at(picture, 20, 48, panel=1), WRONG)
    assert near(at(picture, 27, 48, panel=1), WRONG, levels=30)  # on the thin line to the truth
    assert near(at(picture, 20, 10, panel=1), (128, 128, 128))
    for x, y in ((23, 16), (30, 48)):  # the circles of 5 pixels, at their lowest place
        assert max(at(picture, x, y + 5 + step, panel=1).min() for step in (-0.1, 0, 0.1)) > 220
        assert near(at(picture, x, y + 3.5, panel=1), (128, 128, 128))


def test_truth_allows_a_tenth_of_the_longer_side_unless_told(words: list[str]) -> None:
    same = hand_made((64, 64), blank(64, 64), blank(300, 200))
    same.draw([[32, 32], [16, 16]], "truth", truth=[[150, 130], [75, 81]])  # matches: (150, 100), (75, 50)
    assert words[-4:-1] == ["true place, 30 px around it", "1 within", "1 beyond"]
    assert words[-1].startswith("mean error 30.5 px")


def test_lengths_are_written_for_people(words: list[str]) -> None:
    same = hand_made((64, 64), blank(64, 64), blank(20000, 100))
    same.draw([[32, 32]], "truth", truth=[[11234.56, 50]])
    assert words[1:5] == ["1", "true place, 2000 px around it", "1 within", "0 beyond"]
    assert words[5].startswith("mean error 1235 px")


def test_truth_outside_the_photo_is_drawn_as_far_as_it_is_inside() -> None:
    same = hand_made((64, 64), blank(64, 64), blank(64, 64))
    picture = pixels(same.draw([[2, 32]], "truth", truth=[[-3, 32]], threshold=6))
    assert (picture[:HEIGHT, HEIGHT + 1 : HEIGHT + GAP - 1] > 250).all()  # nothing between the photos
    assert near(at(picture, 0.5, 32, panel=1), RIGHT, levels=30)  # the line to the truth


def test_warp_shows_the_warped_source_the_target_and_half_of_each() -> None:
    moved = hand_made((64, 64), blank(64, 64, "#c83214"), blank(64, 64, "#6496c8"), shift=(4, 0))  # 16 px
    picture = pixels(moved.draw([[x, y] for x in range(4, 44, 8) for y in range(4, 64, 8)], "warp"))
    assert picture.shape[1] == 3 * HEIGHT + 2 * GAP
    assert near(at(picture, 40, 30), (200, 50, 20))
    assert near(at(picture, 8, 30), (225, 225, 225))  # what lies outside the source
    assert near(at(picture, 40, 30, panel=1), (100, 150, 200))
    assert near(at(picture, 40, 30, panel=2), (150, 100, 110))
    assert near(at(picture, 8, 30, panel=2), (100, 150, 200))


def test_flow_is_coloured_by_its_direction(words: list[str]) -> None:
    moved = hand_made((64, 64), blank(64, 64), blank(64, 64), shift=(3, 0))  # 12 pixels to the right
    picture = pixels(moved.draw(style="flow"))
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
    still = hand_made((64, 64), blank(64, 64), blank(64, 64))
    assert near(at(pixels(still.draw(style="flow")), 30, 30, panel=1), STILL)
    assert words[2] == "radius 1 px, inner 0.5 px"


def test_single_wrong_matches_do_not_set_the_scale_of_the_flow(words: list[str]) -> None:
    moved = hand_made((256, 256), blank(64, 64), blank(64, 64), shift=(4, 0))  # a quarter of 16 pixels
    moved.best[32 * 64 + 32] = 0
    moved.draw(style="flow")
    assert words[2] == "radius 4 px, inner 2 px"


def test_the_wheel_by_hand() -> None:
    assert wheel_colours(np.array([[0, 0], [1, 0], [2, 0], [-0.5, 0]])).tolist() == [
        [120, 120, 120],
        [245, 170, 0],
        [245, 170, 0],  # beyond the edge
        [65, 118, 175],
    ]
    assert wheel_colours(np.array([[0, -1], [0, 1]])).tolist() == [[240] * 3, [20] * 3]


def test_heat_is_highest_where_the_scores_are() -> None:
    match = scene()
    scores = match.scores(POINTS[2])
    row, column = np.unravel_index(scores.argmax(), scores.shape)
    assert (row, column) == (7, 8)  # (34, 26) is turned about (30, 22) by 30 degrees, to (31.5, 27.5)
    picture = pixels(match.draw(POINTS[2:3], "heat"))
    scale, left = HEIGHT / 48, 640 + GAP
    blueness = picture[:HEIGHT, left : left + 640, 2] - picture[:HEIGHT, left : left + 640, 0]
    yellow = blueness[round(4 * row * scale) + 2, round(4 * column * scale) - 2]
    assert yellow < -60
    assert blueness[:, 400:].min() > 0  # far away all is blue


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All that is written on drawings."""
    found: list[str] = []
    real = canvas.write

    def keep(draw: Any, place: Any, text: str, *rest: Any, **look: Any) -> None:
        found.append(text)
        real(draw, place, text, *rest, **look)

    monkeypatch.setattr(canvas, "write", keep)
    return found


def luminance(picture: Image.Image) -> NDArray[np.float64]:
    share = np.asarray(picture) / 255
    linear = np.where(share <= 0.04, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    return np.asarray(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("shade", range(0, 256, 51))
@pytest.mark.parametrize("mark", ["line", "dot", "diamond", "ring", "number"])
@pytest.mark.parametrize("colour", [NEUTRAL, RIGHT, WRONG, tuple(colours(0.5).tolist())])
def test_marks_stand_out_from_any_photo(mark: str, colour: Any, shade: int) -> None:
    """Some pixels of a mark have the contrast that the accessibility guidelines (WCAG) ask for, 3 to 1."""
    picture = Image.new("RGB", canvas.enlarged((60, 60)), (shade, shade, shade))
    pen = Pen(picture)
    draw = {
        "line": lambda: pen.line((10, 10), (50, 50), colour),
        "dot": lambda: pen.dot((30, 30), colour),
        "diamond": lambda: pen.diamond((30, 30), colour),
        "ring": lambda: pen.ring((30, 30), 10),
        "number": lambda: pen.number((30, 30), 8),
    }
    draw[mark]()
    found = luminance(canvas.shrunk(picture)) + 0.05
    ground = found[0, 0]
    contrast = np.maximum(found / ground, ground / found)
    assert (contrast >= 3).sum() >= 12


@pytest.mark.parametrize("style", STYLES)
def test_drawings_of_extreme_photos_stay_small(style: str) -> None:
    long = hand_made((64, 64), blank(4000, 8), blank(8, 4000))
    needed: dict[str, dict[str, Any]] = {
        "truth": {"points": [[3000, 4]], "truth": [[4, 3000]]},
        "heat": {"points": [[3000, 4]]},
    }
    object.__setattr__(long, "evidence", hand_made_evidence())
    picture = long.draw(style=style, **needed.get(style, {}))
    assert picture.width <= 3 * (WIDEST + GAP)
    assert picture.height <= HEIGHT + 120


def hand_made_evidence() -> Any:
    """Stands for evidence that any cell fits alike."""
    import torch

    class Alike:
        def scores(self, rows: slice, columns: slice) -> torch.Tensor:
            return torch.full((16, 16), 0.5)

    return Alike()


@pytest.mark.parametrize(
    ("points", "options", "complaint"),
    [
        (None, {"style": "line"}, "unknown style 'line': did you mean 'lines'? Known: lines, truth, warp"),
        (None, {"style": "Heatmap"}, "did you mean 'heat'"),
        (None, {"style": "truth"}, "needs source points and where they belong in the target"),
        ([[1, 2]], {"style": "truth"}, "needs source points and where they belong"),
        (None, {"style": "truth", "truth": [[1, 2]]}, "needs source points and where they belong"),
        ([[1, 2]], {"style": "truth", "truth": [[1, 2], [3, 4]]}, "1 points, 2 true places"),
        ([[1, 2]], {"style": "truth", "truth": [[1, np.nan]]}, "true place 1 is (1.0, nan)"),
        ([[1, 2]], {"style": "truth", "truth": [1, 2]}, "true places have shape (2,); wanted (K, 2)"),
        ([[1, 2]], {"style": "truth", "truth": "here"}, "true places must be numbers"),
        ([[1, 2]], {"style": "truth", "truth": [[1, 2]], "threshold": 0}, "threshold 0: wanted pixels"),
        ([[1, 2]], {"style": "truth", "truth": [[1, 2]], "threshold": np.nan}, "more than 0"),
        ([[1, 2]], {"truth": [[1, 2]]}, "style 'lines' shows no true places; choose style 'truth'"),
        ([[1, 2]], {"style": "heat", "truth": [[1, 2]]}, "style 'heat' shows no true places"),
        (None, {"threshold": 5}, "style 'lines' has no threshold"),
        (
            None,
            {"style": "heat"},
            "style 'heat' shows one source point: give exactly one in points, not none",
        ),
        ([[1, 2], [3, 4]], {"style": "heat"}, "exactly one in points, not 2"),
        ([], {"style": "heat"}, "exactly one in points, not 0"),
        ([[1, 2]], {"style": "heat"}, "this match holds no evidence for scores"),
        ([[1, 2], [3, 4]], {"style": "warp"}, "a warp needs at least 3 points"),
        ([[65, 2]], {"style": "flow"}, "outside the source photo"),
    ],
)
def test_what_does_not_go_together(points: Any, options: dict[str, Any], complaint: str) -> None:
    same = hand_made((64, 64), blank(64, 64), blank(64, 64))
    with pytest.raises(InputError) as raised:
        same.draw(points, **options)
    assert complaint in str(raised.value)
    assert "\n" not in str(raised.value)


def test_styles_for_many_pairs() -> None:
    for style in ("lines", "warp", "flow"):
        check_style_of_any_pair(style)
    for style in ("truth", "heat"):
        with pytest.raises(InputError, match=r"needs points of one pair; for many choose lines, warp, flow"):
            check_style_of_any_pair(style)
    with pytest.raises(InputError, match=r"did you mean 'flow'"):
        check_style_of_any_pair("flows")
