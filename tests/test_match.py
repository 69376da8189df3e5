"""Match: answers worked out by hand from hand-made best cells."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from dhpf import InputError, Match, Matcher, match
from dhpf.grid import Grid, resize_points
from dhpf.match import Foreground
from dhpf.model.readout import Flow, argmax_flow

LAYERS = (2, 7)


def hand_made(
    size: tuple[int, int],
    source: Image.Image,
    target: Image.Image,
    shift: tuple[int, int] = (0, 0),
    confidence: NDArray[np.float32] | None = None,
) -> Match:
    """Every cell of the source matches the cell that lies ``shift`` columns and rows away, or the edge."""
    grid = Grid(-(-size[1] // 4), -(-size[0] // 4), stride=4.0)
    y, x = np.indices(grid.shape)
    best = np.clip(y + shift[1], 0, grid.rows - 1) * grid.columns + np.clip(x + shift[0], 0, grid.columns - 1)
    sure = torch.full((grid.cells,), 0.5) if confidence is None else torch.from_numpy(confidence).flatten()
    flow = argmax_flow(torch.from_numpy(best).flatten(), sure, grid, grid)
    return Match(source, target, flow, size, "by hand", LAYERS)


def blank(width: int, height: int, colour: str = "grey") -> Image.Image:
    return Image.new("RGB", (width, height), colour)


@pytest.mark.parametrize("size", [(64, 64), (96, 48), (50, 70)])
def test_identity_moves_nothing(size: tuple[int, int]) -> None:
    same = hand_made(size, blank(90, 110), blank(90, 110))
    points = np.random.default_rng(0).uniform(0, (90, 110), (50, 2))
    np.testing.assert_allclose(same.transfer(points), points, atol=1e-9)
    np.testing.assert_allclose(same.flow, 0, atol=1e-4)


def test_photos_of_other_sizes_scale_x_and_y_apart() -> None:
    # x doubles, y is five times as long; from the corner of the image, which lies at -1/2.
    wide = hand_made((64, 64), blank(64, 32), blank(128, 160))
    np.testing.assert_allclose(wide.transfer([[10, 8], [32, 16]]), [[20.5, 42], [64.5, 82]])
    np.testing.assert_allclose(wide.transfer([[-0.5, -0.5], [63.5, 31.5]]), [[-0.5, -0.5], [127.5, 159.5]])
    np.testing.assert_allclose(wide.flow[8, 10], [10.5, 34])


def test_constant_shift() -> None:
    moved = hand_made((64, 64), blank(64, 64), blank(64, 64), shift=(3, -2))  # cells of 4 pixels
    np.testing.assert_allclose(moved.transfer([[30, 30], [20, 41]]), [[42, 22], [32, 33]])
    np.testing.assert_allclose(moved.flow[20:40, 10:30], np.broadcast_to([12, -8], (20, 20, 2)))


def test_constant_shift_between_photos_of_other_sizes() -> None:
    # One cell right is 4 of 64 input pixels, 4 / 64 * 256 = 16 of the target's; 10.5 of 32 is 84 of 256.
    moved = hand_made((64, 64), blank(32, 32), blank(256, 256), shift=(1, 0))
    np.testing.assert_allclose(moved.transfer([[10, 10]]), [[99.5, 83.5]])


def test_a_point_moves_by_the_mean_of_its_neighbours() -> None:
    displacement = np.zeros((16, 16, 2))
    displacement[2, 3] = 24, 0  # this cell alone goes 6 columns to the right
    cells = Flow(displacement, np.zeros((16, 16)), Grid(16, 16, 4.0))
    one = Match(blank(64, 64), blank(64, 64), cells, (64, 64), "")
    # Boxes of side 10 around multiples of 4: (12, 8) lies in 3 x 3 of them, (14, 10) in 2 x 2.
    np.testing.assert_allclose(one.transfer([[12, 8], [14, 10]]), [[12 + 24 / 9, 8], [14 + 24 / 4, 10]])


def literal_mean(on_grid: NDArray[np.float64], grid: Grid, x: float, y: float) -> NDArray[np.float64]:
    """The mean over the cells whose box, of side 2.5 strides around the centre, covers the point."""
    reach = 1.25 * grid.stride
    covering = [
        on_grid[row, column]
        for row in range(grid.rows)
        for column in range(grid.columns)
        if abs(x - grid.offset - grid.stride * column) <= reach
        and abs(y - grid.offset - grid.stride * row) <= reach
    ]
    return np.mean(covering, axis=0)


@given(
    rows=st.integers(1, 12),
    columns=st.integers(1, 12),
    stride=st.sampled_from([4, 8, 16]),
    offset=st.sampled_from([0.0, 3.5]),
    seed=st.integers(0, 1000),
    places=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=5),
)
def test_a_flow_agrees_with_the_paper(
    rows: int, columns: int, stride: int, offset: float, seed: int, places: list[tuple[float, float]]
) -> None:
    on_grid = np.random.default_rng(seed).normal(size=(rows, columns, 2))
    grid = Grid(rows, columns, stride, offset)
    flow = Flow(on_grid, np.zeros((rows, columns)), grid)
    # Eighths of a pixel are exact in floating point: box edges are met exactly, as by whole pixels.
    x, y = (
        offset + np.round(np.array(axis) * 8 * stride * cells) / 8
        for axis, cells in zip(zip(*places, strict=True), (columns, rows), strict=True)
    )
    expected = [literal_mean(on_grid, grid, *point) for point in zip(x, y, strict=True)]
    np.testing.assert_allclose(flow.displacement_at(x, y), expected, atol=1e-10)


def test_cell_offsets_between_grids_of_other_shapes_and_strides() -> None:
    # Source 2 x 3 cells, target 4 columns; the cell in row 1, column 2 goes to cell 13: row 3, column 1.
    best, sure = torch.tensor([0, 1, 2, 4, 5, 13]), torch.zeros(6)
    same = argmax_flow(best, sure, Grid(2, 3, 4.0), Grid(4, 4, 4.0))
    expected = [[[0, 0], [0, 0], [0, 0]], [[0, 0], [0, 0], [-4, 8]]]
    np.testing.assert_array_equal(same.displacement, expected)
    # The same cells 8 pixels apart, the first at (3, 3): (3 + 8, 3 + 24) from (8, 4).
    other = argmax_flow(best, sure, Grid(2, 3, 4.0), Grid(4, 4, 8.0, 3.0))
    np.testing.assert_array_equal(other.displacement[1, 2], [3, 23])


def test_confidence_is_never_above_one_or_below_zero() -> None:
    """A mean from differences of sums over the whole grid: sums round, and it was off by as much."""
    confidence = np.random.default_rng(0).uniform(0, 1, (60, 60))
    confidence[30:, 30:], confidence[:30, 30:] = 1, 0
    flow = Flow(np.zeros((60, 60, 2)), confidence, Grid(60, 60, 4.0))
    y, x = np.mgrid[0:240, 0:240].astype(np.float64)
    found = flow.confidence_at(x, y)
    assert found.max() <= 1
    assert found.min() >= 0


@given(
    width=st.integers(8, 60),
    height=st.integers(8, 60),
    target=st.tuples(st.integers(8, 90), st.integers(8, 90)),
    size=st.tuples(st.integers(32, 70), st.integers(32, 70)),
    seed=st.integers(0, 1000),
)
def test_flow_and_confidence_agree_with_transfer(
    width: int, height: int, target: tuple[int, int], size: tuple[int, int], seed: int
) -> None:
    random = np.random.default_rng(seed)
    grid = Grid(-(-size[1] // 4), -(-size[0] // 4), stride=4.0)
    best = torch.from_numpy(random.integers(0, grid.cells, grid.cells))
    confidence = torch.from_numpy(random.uniform(0, 1, grid.cells))
    cells = argmax_flow(best, confidence, grid, grid)
    any_match = Match(blank(width, height), blank(*target), cells, size, "")
    y, x = np.indices((height, width))
    pixels = np.stack([x, y], -1).reshape(-1, 2)
    moved = any_match.flow + np.stack([x, y], -1)
    np.testing.assert_allclose(moved.reshape(-1, 2), any_match.transfer(pixels), atol=1e-3)
    np.testing.assert_allclose(any_match.confidence.flatten(), any_match.confidence_at(pixels), atol=1e-6)


def test_a_large_photo_is_computed_in_strips(monkeypatch: pytest.MonkeyPatch) -> None:
    confidence = np.random.default_rng(0).uniform(0, 1, 256).astype(np.float32)
    whole = hand_made((64, 64), blank(70, 50), blank(30, 40), (2, 1), confidence)
    flow, certain = whole.flow, whole.confidence
    monkeypatch.setattr(match, "STRIP", 300)  # four rows at a time
    parts = hand_made((64, 64), blank(70, 50), blank(30, 40), (2, 1), confidence)
    np.testing.assert_array_equal(parts.flow, flow)
    np.testing.assert_array_equal(parts.confidence, certain)


def test_key_points_are_the_most_confident_that_are_apart() -> None:
    confidence = np.zeros((16, 16), np.float32)
    confidence[3, 4], confidence[3, 5], confidence[12, 10] = 1.0, 0.9, 0.8  # the second is beside the first
    points = hand_made((64, 64), blank(128, 64), blank(64, 64), confidence=confidence).keypoints(2)
    peaks = resize_points([[4 * 4, 3 * 4], [10 * 4, 12 * 4]], (64, 64), (128, 64))
    assert (np.abs(points - peaks) <= (2 * 8, 2 * 4)).all()  # within two cells
    same = hand_made((64, 64), blank(64, 64), blank(64, 64))
    assert len(same.keypoints(40)) == 40
    assert len(same.keypoints(1)) == 1
    for count in (0, -3):
        with pytest.raises(InputError, match=rf"^{count} key points were asked for; wanted 1 or more"):
            same.keypoints(count)


def with_objects(match: Match, here: NDArray[np.float32], there: NDArray[np.float32]) -> Match:
    """Foregrounds on grids of the network's input whose cells are 16 pixels wide."""
    grid = Grid(4, 4, stride=16.0, offset=7.5)
    return replace(match, foreground=(Foreground(here, grid), Foreground(there, grid)))


def test_key_points_lie_on_objects_of_both_images() -> None:
    left, upper = np.zeros((2, 4, 4), np.float32)
    left[:, :2] = 1  # the source's object is on the left
    upper[:2] = 1  # the target's is above
    still = with_objects(hand_made((64, 64), blank(64, 64), blank(64, 64)), left, upper)
    points = still.keypoints(12)
    assert len(points) == 12
    # Half-way between the last cell on the object, at 23.5, and the first beside it, at 39.5, lies 31.5.
    assert (points < 31.5).all()
    np.testing.assert_allclose(still.on_objects([[10, 10], [50, 10], [10, 50], [31.5, 10]]), [1, 0, 0, 0.5])


def test_there_are_fewer_key_points_where_fewer_qualify() -> None:
    nothing, everything = np.zeros((4, 4), np.float32), np.ones((4, 4), np.float32)
    match = hand_made((64, 64), blank(64, 64), blank(64, 64))
    assert len(with_objects(match, everything, nothing).keypoints()) == 0
    unsure = np.full((16, 16), 0.05, np.float32)
    unsure[2:4, 2:4] = 0.9
    match = hand_made((64, 64), blank(64, 64), blank(64, 64), confidence=unsure)
    points = with_objects(match, everything, everything).keypoints(1000)
    assert 0 < len(points) < 1000 and (points < 22).all()


def test_points_that_are_less_sure_are_not_there() -> None:
    confidence = np.full((16, 16), 0.2, np.float32)
    confidence[:, :8] = 0.6
    match = hand_made((64, 64), blank(64, 64), blank(64, 64), confidence=confidence)
    points = [[10.0, 10.0], [50.0, 10.0]]
    landed = match.transfer(points, min_confidence=0.5)
    np.testing.assert_allclose(landed[0], [10, 10])
    assert np.isnan(landed[1]).all()
    assert match.to_dict(points, min_confidence=0.5)["target_points"] == [[10.0, 10.0], None]
    assert match.to_dict(points)["target_points"] == points
    for style in ("lines", "points"):
        some = match.draw(points, style, min_confidence=0.5)
        assert some.tobytes() == match.draw(points[:1], style).tobytes()
        assert some.tobytes() != match.draw(points, style).tobytes()


def test_dictionary_has_what_the_json_file_promises() -> None:
    moved = hand_made((64, 64), blank(64, 64), blank(128, 128), shift=(1, 0))
    found = moved.to_dict([[20, 20], [30, 40]])
    assert found == {
        "model": "by hand",
        "source_size": [64, 64],
        "target_size": [128, 128],
        "input_size": [64, 64],
        "flipped": False,
        "source_points": [[20.0, 20.0], [30.0, 40.0]],
        "target_points": [[48.5, 40.5], [68.5, 80.5]],
        "confidence": [0.5, 0.5],
        "layers": [2, 7],
    }
    assert replace(moved, layers=None).to_dict([[20, 20]]).keys() == found.keys() - {"layers"}
    gated = replace(moved, layer_probability=np.array([0.25, 1], np.float32)).to_dict([[20, 20]])
    assert gated["layer_probability"] == [0.25, 1]
    assert len(moved.to_dict()["source_points"]) == len(moved.to_dict()["target_points"]) == 12


def test_a_match_that_was_saved_has_no_scores_but_all_else(quick: Matcher, photo: Path) -> None:
    found = quick.match(photo, photo)
    assert found.scores([30, 20]).shape == (16, 16)
    for again in (pickle.loads(pickle.dumps(found)), quick.match(photo, photo, scores=False)):
        np.testing.assert_array_equal(again.transfer([[30, 20]]), found.transfer([[30, 20]]))
        with pytest.raises(InputError, match=r"this match holds no scores: .* match the photos again"):
            again.scores([30, 20])
    assert found.match_scores is not None
    assert len(pickle.dumps(found)) < found.match_scores.nbytes / 4


@pytest.mark.parametrize(
    ("point", "complaint"),
    [
        ([61, 3], "outside"),
        ([3, float("nan")], "finite"),
        ([[3, 3]], "shape"),
        (3, "shape"),
        ([], "one source point"),
    ],
)
def test_scores_are_of_one_point_of_the_photo(
    quick: Matcher, photo: Path, point: Any, complaint: str
) -> None:
    with pytest.raises(InputError, match=complaint):
        quick.match(photo, photo).scores(point)


@pytest.mark.parametrize("use", ["transfer", "confidence_at", "draw", "warp", "to_dict"])
def test_every_entrance_checks_points(use: str) -> None:
    same = hand_made((64, 64), blank(64, 64), blank(64, 64))
    with pytest.raises(InputError, match=r"outside"):
        getattr(same, use)([[65, 3]])
    with pytest.raises(InputError, match=r"finite"):
        getattr(same, use)([[float("nan"), 3]])
