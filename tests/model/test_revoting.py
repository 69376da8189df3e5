"""Re-voting: affine maps that are known, an independent literal implementation, windows by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from PIL import Image
from torch.testing import assert_close

import dhpf
from dhpf.grid import Grid
from dhpf.model.correlation import correlate
from dhpf.model.hough import Windows, offset_windows
from dhpf.model.matching import Voting, match_cells
from dhpf.model.revoting import Direction, affine_space, affine_windows, fit_affine
from dhpf.model.scores import MatchScores
from tests import literal

CPU = torch.device("cpu")
GRID = Grid(30, 40, 4.0)


def cells(grid: Grid) -> torch.Tensor:
    """(N, 2) row and column."""
    rows, columns = torch.meshgrid(*(torch.arange(n) for n in grid.shape), indexing="ij")
    return torch.stack([rows.flatten(), columns.flatten()], 1)


def landing(linear: torch.Tensor, shift: tuple[float, float], grid: Grid = GRID) -> torch.Tensor:
    """Where an affine map about the centre of the grid puts every cell."""
    centre = (torch.tensor(grid.shape, dtype=torch.float64) - 1) / 2
    return (cells(grid) - centre) @ linear + centre + torch.tensor(shift, dtype=torch.float64)


def nearest_targets(places: torch.Tensor, grid: Grid = GRID) -> tuple[torch.Tensor, torch.Tensor]:
    """The cell nearest to each place, and whether the place lies in the grid."""
    limits = torch.tensor(grid.shape) - 1
    inside = ((places >= 0) & (places <= limits)).all(1)
    row, column = torch.minimum(places.round().long().clamp_min(0), limits).unbind(1)
    return row * grid.columns + column, inside


def turned(degrees: float, scale: float) -> torch.Tensor:
    a = math.radians(degrees)
    return scale * torch.tensor(
        [[math.cos(a), math.sin(a)], [-math.sin(a), math.cos(a)]], dtype=torch.float64
    )


@pytest.mark.parametrize(
    "linear", [turned(0, 1), turned(0, 0.6), turned(15, 1.2), torch.tensor([[0.7, 0.1], [0, 1.2]]).double()]
)
def test_finds_the_map_that_most_confident_matches_share(linear: torch.Tensor) -> None:
    places = landing(linear, (2.0, -3.0))
    best, inside = nearest_targets(places)
    generator = torch.Generator().manual_seed(0)
    # A quarter of the cells, as sure as the others, and all cells that leave the grid match anything.
    astray = ~inside | (torch.rand(len(best), generator=generator) < 0.25)
    best[astray] = torch.randint(len(best), (int(astray.sum()),), generator=generator)
    confidence = 0.5 + torch.rand(len(best), generator=generator)
    confidence[~inside] *= 0.2
    found = fit_affine(Direction(best, confidence), None, GRID, GRID)
    assert float((found - places)[inside].norm(dim=1).max()) < 1.5  # targets were rounded to whole cells


def test_an_exact_shift_is_found_exactly() -> None:
    places = landing(turned(0, 1), (4.0, -2.0))
    best, inside = nearest_targets(places)
    found = fit_affine(Direction(best, inside.float()), None, GRID, GRID)
    assert_close(found, places, rtol=0, atol=1e-9)


def test_without_any_confidence_nothing_moves() -> None:
    nothing = torch.zeros(1200)
    found = fit_affine(Direction(nothing.long(), nothing), None, GRID, GRID)
    assert_close(found, cells(GRID).double(), rtol=0, atol=1e-9)


def test_grids_of_two_sizes_are_compared_in_fractions_of_the_image() -> None:
    large, small = Grid(20, 20, 4.0), Grid(10, 10, 4.0)
    best = (cells(large) // 2 * torch.tensor([10, 1])).sum(1)  # the same location in a grid of half the size
    found = fit_affine(Direction(best, torch.ones(400)), None, large, small)
    assert float((found - cells(large) / 2).abs().max()) < 0.5


def test_windows_of_offsets_by_hand() -> None:
    table = torch.arange(12.0).view(2, 6)  # 1 x 4 source cells, 2 x 3 target cells: offsets 0..1 and -3..2
    windows = offset_windows(Grid(1, 4, 4.0), Grid(2, 3, 4.0), CPU)
    assert windows.read(table, torch.tensor([0, 3])).tolist() == [[3, 4, 5, 9, 10, 11], [0, 1, 2, 6, 7, 8]]


def test_affine_windows_by_hand() -> None:
    # A target of 1 x 4 cells, with a margin of 2: places from -2 to 5, offsets from -5 to 5.
    places = torch.tensor([[0.0, 0.0], [0.2, 1.4], [0.0, -9.0], [0.0, 99.0]], dtype=torch.float64)
    windows = affine_windows(places, Grid(1, 4, 4.0))
    assert windows.top.tolist() == [0, 0, 0, 0]
    assert windows.left.tolist() == [5, 4, 7, 0]
    space = affine_space(Grid(1, 4, 4.0), Grid(1, 4, 4.0), torch.float32, CPU)
    assert (len(space.vertical), len(space.horizontal)) == (1, 11)  # the last window ends with the table
    offsets = torch.arange(-5.0, 6.0)[None]
    assert windows.read(offsets, torch.tensor([0, 1])).tolist() == [[0, 1, 2, 3], [-1, 0, 1, 2]]


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 9), st.integers(0, 2**31))
def test_adding_is_the_adjoint_of_reading(height: int, width: int, count: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    table = torch.rand(9, 8, generator=generator, dtype=torch.float64)
    top = torch.randint(9 - height + 1, (count,), generator=generator)
    left = torch.randint(8 - width + 1, (count,), generator=generator)
    windows = Windows(top, left, (height, width))
    values = torch.rand(count, height * width, generator=generator, dtype=torch.float64)
    sums = torch.zeros_like(table)
    windows.add(sums, torch.arange(count), values)
    assert_close((sums * table).sum(), (values * windows.read(table, torch.arange(count))).sum())


def literal_vote(appearance: torch.Tensor, places: torch.Tensor, size: int, grid: int) -> torch.Tensor:
    """Votes for offsets from the given places, match by match; square photos of one size."""
    places = places.round().clamp(-(grid // 2), grid - 1 + grid // 2)
    offset = cells(Grid(grid, grid, 4.0))[None].double() - places[:, None]  # (N, N', 2)
    bins = offset * (4 / (2 * size / math.sqrt(8192)))
    profile = literal.gaussian_7x7()[3] / literal.gaussian_7x7()[3].sum()
    variance = (3.5 / 2.354) ** 2
    flat, weight = bins.flatten(0, 1), appearance.flatten()
    votes = torch.zeros(len(flat), dtype=torch.float64)
    for n, own in enumerate(flat):
        distance = flat - own
        near = (distance.abs() <= 3.5).all(1)
        gaussian = torch.exp(-distance.square().sum(1) / (2 * variance)) * near
        votes[n] = (gaussian * weight).sum() * profile[3] ** 2
    return votes.view_as(appearance)


def literal_votes_again(appearance: torch.Tensor, votes: torch.Tensor, size: int, grid: int) -> torch.Tensor:
    """Filtered confidence after a vote about an extrapolated map and another about a fitted one."""
    for extrapolation in (1.5, 1.0):
        filtered = literal.mutual(appearance * votes)
        value, best = filtered.max(1)
        value_b, best_b = filtered.max(0)
        ends = (Direction(best, value), Direction(best_b, value_b))
        square = Grid(grid, grid, 4.0)
        votes = literal_vote(appearance, fit_affine(*ends, square, square, extrapolation), size, grid)
    return literal.mutual(appearance * votes)


def test_both_directions_say_more_than_one() -> None:
    places = landing(turned(0, 0.7), (1.0, 2.0))
    there, inside = nearest_targets(places)
    back, inside_b = nearest_targets(landing(torch.linalg.inv(turned(0, 0.7)), (-1 / 0.7, -2 / 0.7)))
    generator = torch.Generator().manual_seed(1)
    astray = torch.rand(len(there), generator=generator) < 0.9
    there = torch.where(astray, torch.randint(len(there), there.shape, generator=generator), there)
    forward, backward = Direction(there, inside.float()), Direction(back, inside_b.float())
    errors = [
        float((fit_affine(forward, other, GRID, GRID) - places).norm(dim=1).max())
        for other in (None, backward)
    ]
    assert errors[1] < 0.5 * errors[0], errors


def test_extrapolation_scales_what_is_not_a_shift() -> None:
    best, inside = nearest_targets(landing(turned(0, 0.8), (1.0, -2.0)))
    shift, fitted, bold = (
        fit_affine(Direction(best, inside.float()), None, GRID, GRID, extrapolation)
        for extrapolation in (0.0, 1.0, 1.5)
    )
    moved = shift - cells(GRID)
    assert_close(moved, moved[:1].expand_as(moved))  # the same for every cell
    assert_close(bold - shift, 1.5 * (fitted - shift))


@pytest.mark.parametrize(("compiled", "matrix_bytes"), [(True, 10**9), (True, 0), (False, 10**9), (False, 0)])
def test_re_voting_equals_the_literal_one(compiled: bool, matrix_bytes: int) -> None:
    generator = torch.Generator().manual_seed(3)
    side, size = 8, 32
    a = torch.rand(12, side, side, generator=generator)
    b = torch.nn.functional.interpolate(a[None, :, 1:7, 1:6], (side, side), mode="bilinear")[0]
    b = b + 0.2 * torch.rand(12, side, side, generator=generator)
    a, b, grid = a.permute(1, 2, 0), b.permute(1, 2, 0), Grid(side, side, 4.0)
    first = literal.match([a.double()], [b.double()], grid, grid)
    expected = literal_votes_again(first.appearance, first.votes, size, side)
    correlation = correlate([a], [b], grid, grid)
    found = match_cells(correlation, Voting(revote=True), matrix_bytes, compiled)
    top = expected.amax(1)
    assert_close(expected.gather(1, found.best[:, None])[:, 0], top, rtol=1e-3, atol=float(top.max()) * 1e-5)
    every = found.votes.of_cells(torch.arange(side * side)).double()
    again = literal.mutual(first.appearance * every)
    assert_close(again / again.max(), expected / expected.max(), rtol=1e-3, atol=1e-5)
    assert float(found.confidence.min()) >= 0 and float(found.confidence.max()) <= 1
    scores_of = MatchScores(
        correlation, found.votes, found.column_maxima
    )  # what the scores of a point rest on
    for row, column in ((0, 0), (3, 5), (7, 2)):
        scores = scores_of.of_cells(torch.tensor([row * side + column]))
        assert int(scores.argmax()) == int(found.best[row * side + column])
        assert float(scores.max()) == pytest.approx(float(found.confidence[row * side + column]), rel=1e-4)


@pytest.mark.parametrize(("scale", "degrees"), [(0.6, 0.0), (1.5, 0.0), (1.2, 15.0)])
def test_more_cells_find_their_place_when_an_object_grows_or_turns(scale: float, degrees: float) -> None:
    generator = torch.Generator().manual_seed(5)
    side = 40
    world = torch.randn(1, 24, side // 2, side // 2, generator=generator)
    grid = torch.nn.functional.affine_grid(torch.eye(2, 3)[None], [1, 24, side, side], align_corners=True)
    inverse = torch.linalg.inv(turned(degrees, scale)).float()
    a = torch.nn.functional.grid_sample(world, grid, align_corners=True)[0]
    b = torch.nn.functional.grid_sample(world, (grid.flip(-1) @ inverse).flip(-1), align_corners=True)[0]
    a, b = (x + 0.7 * torch.randn(24, side, side, generator=generator) for x in (a, b))  # little to go by
    square = Grid(side, side, 4.0)
    places = landing(turned(degrees, scale), (0.0, 0.0), square)
    inside = ((places >= 0) & (places <= side - 1)).all(1)
    right = []
    for revote in (False, True):
        correlation = correlate([a.permute(1, 2, 0)], [b.permute(1, 2, 0)], square, square)
        best = match_cells(correlation, Voting(revote=revote)).best
        landed = torch.stack([best // side, best % side], 1)
        right.append(float(((landed - places).norm(dim=1) < 2)[inside].float().mean()))
    assert right[1] > right[0] + 0.2, right


@pytest.mark.parametrize("name", ["cheetah", "cheetah_cub"])
def test_a_real_photo_finds_itself_in_an_enlarged_part_of_it(name: str) -> None:
    photo = Image.open(dhpf.sample(name)).convert("RGB")
    left, top, right, bottom = (
        round(share * side)
        for share, side in zip((0.3, 0.1, 0.8, 0.9), (*photo.size, *photo.size), strict=True)
    )
    part = photo.crop((left, top, right, bottom))  # twice as large across, a quarter larger down
    inner = np.linspace(0, 1, 12)[1:-1]
    wanted = np.stack(np.meshgrid(inner * part.width, inner * part.height), axis=-1).reshape(-1, 2)
    method = dhpf.load("resnet50-weak").method
    right_ones = []
    for revote in (False, True):
        method.config = replace(method.config, revote=revote)
        matcher = dhpf.Matcher(method, "with or without")
        found = matcher.match(photo, part).transfer(wanted + np.array([left, top]))
        right_ones.append(np.mean(np.linalg.norm((found - wanted) / part.size, axis=1) < 0.03))
    once, twice = right_ones
    assert twice > 0.9 and twice > once + 0.15, right_ones
