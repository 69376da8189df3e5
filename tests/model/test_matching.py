"""The fast path against the literal one, over sizes, layer sets and batch sizes."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch.testing import assert_close

from dhpf.backbones.resnet import ResNet
from dhpf.fast.passes import CompiledPasses
from dhpf.grid import Grid
from dhpf.model.correlation import Correlation, correlate
from dhpf.model.hough import Votes, hough_space, offset_windows
from dhpf.model.matching import Passes, Tile, Voting, match_cells, strongest_matches
from tests import literal

side = st.integers(16, 120)
CPU = torch.device("cpu")


Pair = tuple[list[torch.Tensor], list[torch.Tensor], Grid, Grid]


@st.composite
def pairs(draw: st.DrawFn) -> Pair:
    """Feature blocks (h, w, C) of two images of any size, at some of the four resolutions of a ResNet; and
    the grids, sometimes with the stride and offset of other backbones."""
    with torch.device("meta"):
        backbone = ResNet(50)
    grids = [backbone.grid((draw(side), draw(side))) for _ in range(2)]
    stride, offset = draw(st.sampled_from([(4.0, 0.0), (7.0, 6.5)]))
    layers = draw(st.lists(st.integers(0, 3), min_size=1, max_size=5).map(sorted))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    blocks: tuple[list[torch.Tensor], list[torch.Tensor]] = ([], [])
    for level in layers:
        # With few channels, interpolated features pass through zero; float32 has no relative precision there.
        channels = draw(st.integers(6, 9))
        for grid, into in zip(grids, blocks, strict=True):
            shape = list(grid.shape)
            for _ in range(level):
                shape = [(cells + 1) // 2 for cells in shape]
            into.append(torch.randn(*shape, channels, generator=generator, dtype=torch.float64))
    a, b = (grid._replace(stride=stride, offset=offset) for grid in grids)
    return *blocks, a, b


def cast(pair: Pair, dtype: torch.dtype) -> Correlation:
    a, b, grid_a, grid_b = pair
    return correlate([x.to(dtype) for x in a], [x.to(dtype) for x in b], grid_a, grid_b)


@settings(deadline=None, max_examples=60)
@given(pairs(), st.sampled_from(["exact", "published"]))
def test_torch_passes_equal_the_literal_method_in_float64(pair: Pair, hough: str) -> None:
    a, b, grid_a, grid_b = pair
    expected = literal.match(a, b, grid_a, grid_b, hough)
    correlation = cast(pair, torch.float64)
    p = torch.empty(grid_a.cells, grid_b.cells, dtype=torch.float64)
    sums = torch.zeros([m + n - 1 for m, n in zip(grid_a.shape, grid_b.shape, strict=True)]).double()
    Passes(correlation).appearance(Tile(0, grid_a.rows, grid_a.columns), p, sums)
    assert_close(p, expected.appearance, rtol=1e-9, atol=1e-12)
    assert_close(correlation.dense(), expected.appearance, rtol=1e-9, atol=1e-12)
    table = hough_space(grid_a, grid_b, torch.float64, CPU, hough).votes(sums)
    spread = offset_windows(grid_a, grid_b, CPU).read(table, torch.arange(grid_a.cells))
    assert_close(spread, expected.votes, rtol=1e-9, atol=1e-12)


@settings(deadline=None, max_examples=60)
@given(pairs(), st.sampled_from([0, 10**9]), st.booleans())
def test_match_cells_finds_the_literal_best_targets(pair: Pair, matrix_bytes: int, compiled: bool) -> None:
    expected = literal.match(*pair)
    found = match_cells(cast(pair, torch.float32), Voting(), matrix_bytes, compiled)
    top = expected.filtered.amax(1)
    reached = expected.filtered.gather(1, found.best[:, None])[:, 0]
    assert_close(reached, top, rtol=1e-3, atol=float(top.max()) * 1e-5)  # equal up to ties
    scale = max(float(expected.votes.max()), 1e-30)
    assert_close(found.confidence.double(), top / scale, rtol=1e-3, atol=1e-5)
    assert float(found.confidence.min()) >= 0 and float(found.confidence.max()) <= 1


@settings(deadline=None, max_examples=40)
@given(pairs(), st.integers(0, 2**31))
def test_rows_and_entries_are_those_of_the_literal_matrix(pair: Pair, seed: int) -> None:
    _, _, grid_a, grid_b = pair
    expected = literal.match(*pair).appearance
    correlation = cast(pair, torch.float64)
    generator = torch.Generator().manual_seed(seed)
    for count in (1, 7, 400):  # few cells are read before they are multiplied, many after
        rows = torch.randint(grid_a.cells, (count,), generator=generator)
        columns = torch.randint(grid_b.cells, (count,), generator=generator)
        assert_close(correlation.rows(rows), expected[rows], rtol=1e-9, atol=1e-12)
        assert_close(correlation.entries(rows, columns), expected[rows, columns], rtol=1e-9, atol=1e-12)
        assert_close(correlation.swap().rows(columns), expected.T[columns], rtol=1e-9, atol=1e-12)


@settings(deadline=None, max_examples=30)
@given(pairs())
def test_the_strongest_matches_are_the_maxima_before_the_filter(pair: Pair) -> None:
    expected = literal.match(*pair).confidence
    found = strongest_matches(cast(pair, torch.float32), Voting())
    rows, columns = (
        expected.gather(1, found.of_rows[:, None])[:, 0],
        expected.T.gather(1, found.of_columns[:, None])[:, 0],
    )
    assert_close(rows, expected.amax(1), rtol=1e-3, atol=float(expected.max()) * 1e-5)
    assert_close(columns, expected.amax(0), rtol=1e-3, atol=float(expected.max()) * 1e-5)


def test_compiled_and_torch_passes_agree_on_every_tile() -> None:
    generator = torch.Generator().manual_seed(0)
    shapes = [(15, 20, 8), (15, 20, 32), (8, 10, 16), (4, 5, 24), (2, 3, 40)]
    a, b = ([torch.randn(*s, generator=generator) for s in shapes] for _ in range(2))
    grid = Grid(15, 20, 4.0)
    correlation = correlate(a, b, grid, grid)
    votes = Votes(torch.rand(29, 39, generator=generator), offset_windows(grid, grid, CPU))
    compiled, plain = CompiledPasses(correlation), Passes(correlation)
    for tile in (Tile(0, 15, 20), Tile(0, 1, 20), Tile(4, 9, 20), Tile(14, 15, 20)):
        cells = (tile.stop - tile.first) * 20
        (p, sums), (q, wanted) = ((torch.empty(cells, 300), torch.zeros(29, 39)) for _ in range(2))
        compiled.appearance(tile, p, sums)
        plain.appearance(tile, q, wanted)
        assert_close(p, q, rtol=1e-5, atol=1e-6)
        assert_close(sums, wanted, rtol=1e-5, atol=1e-5)
        rows, columns = plain.maxima(tile, q, votes)
        lines, same_columns = compiled.maxima(tile, q, votes)
        assert_close(lines.amax(2).flatten(), rows)
        assert_close(same_columns, columns)
        for found, expected in (
            (compiled.best(tile, q, votes, lines, columns), plain.best(tile, q, votes, rows, columns)),
            (
                compiled.best_of_columns(tile, q, votes, lines, columns),
                plain.best_of_columns(tile, q, votes, rows, columns),
            ),
        ):
            assert torch.equal(found.best, expected.best)
            assert_close(found.confidence, expected.confidence)


@pytest.mark.parametrize("revote", [False, True])
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("side", [4, 15, 60])
def test_where_nothing_correlates_there_is_no_confidence(side: int, compiled: bool, revote: bool) -> None:
    ones, grid = torch.ones(side, side, 8), Grid(side, side, 4.0)
    correlation = correlate([ones], [-ones], grid, grid)
    found = match_cells(correlation, Voting(revote=revote), compiled=compiled)
    assert not found.confidence.any()
    assert not found.best.any()  # of equal targets, the first


@pytest.mark.parametrize("revote", [False, True])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_result_does_not_depend_on_the_number_of_threads(threads: int, revote: bool) -> None:
    generator = torch.Generator().manual_seed(1)
    a, b = ([torch.randn(s, s, 16, generator=generator) for s in (24, 12, 6)] for _ in range(2))
    before = torch.get_num_threads()
    grid = Grid(24, 24, 4.0)
    correlation = correlate(a, b, grid, grid)
    expected = match_cells(correlation, Voting(revote=revote))
    try:
        torch.set_num_threads(threads)
        found = match_cells(correlation, Voting(revote=revote))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found.best, expected.best)


def test_sums_by_offset_of_a_hand_made_matrix() -> None:
    # One source row of two cells, one target row of three; match (x, x') holds 10 x + x'.
    values, table = torch.tensor([[0.0, 1.0, 2.0], [10.0, 11.0, 12.0]]), torch.zeros(1, 4)
    offset_windows(Grid(1, 2, 4.0), Grid(1, 3, 4.0), CPU).add(table, torch.arange(2), values)
    # Offsets -1: (1, 0); 0: (0, 0), (1, 1); 1: (0, 1), (1, 2); 2: (0, 2).
    assert_close(table, torch.tensor([[10.0, 11.0, 13.0, 2.0]]))


@pytest.mark.parametrize("hough", ["exact", "published"])
def test_a_match_hears_its_own_offset_most(hough: str) -> None:
    grid = Grid(60, 60, 4.0)
    space = hough_space(grid, grid, torch.float64, CPU, hough)
    one = torch.zeros(119, 119, dtype=torch.float64)
    one[59, 59] = 1.0  # a single match, with offset 0
    votes = space.votes(one)
    peak = literal.gaussian_7x7()[3, 3]
    assert_close(votes[59, 59], peak)
    assert float(votes.max()) == pytest.approx(float(peak), rel=1e-6)
    assert float(votes[59, 70]) == 0.0  # 44 pixels away: beyond three bins of 5.3


def test_exact_bins_hear_equal_distances_equally_and_published_ones_do_not() -> None:
    grid = Grid(60, 60, 4.0)
    rows = {h: hough_space(grid, grid, torch.float64, CPU, h).vertical for h in ("exact", "published")}
    distance_one = {h: torch.diagonal(matrix, 1) for h, matrix in rows.items()}
    assert_close(distance_one["exact"], distance_one["exact"][:1].expand(118))
    assert len(distance_one["published"].unique()) > 1


@pytest.mark.parametrize("compiled", [True, False])
def test_the_papers_plain_cosine_is_an_option(compiled: bool) -> None:
    a = torch.zeros(3, 4, 8)
    a[1, 2, 0] = 1e-3  # tiny, so that the published epsilon shows; all other cells are zero
    a[0, 0, 1] = 1e-3
    grid = Grid(3, 4, 4.0)
    for epsilon, cosine in ((1e-3, 1e-6 / (1e-6 + 1e-3)), (0.0, 1.0)):
        correlation = correlate([a], [a], grid, grid, epsilon)
        p = correlation.dense()
        assert float(p[6, 6]) == pytest.approx(cosine**2, rel=1e-5)
        assert float(p.sum()) == pytest.approx(
            2 * cosine**2, rel=1e-5
        )  # cell 0 with itself, cell 6 with itself
        found = match_cells(correlation, compiled=compiled)
        assert found.best[[0, 6]].tolist() == [0, 6] and bool(torch.isfinite(found.confidence).all())


def test_resizing_a_single_row_or_column() -> None:
    generator = torch.Generator().manual_seed(2)
    a, b = torch.randn(1, 9, 4, generator=generator), torch.randn(9, 1, 4, generator=generator)
    grid_a, grid_b = Grid(3, 17, 4.0), Grid(20, 1, 4.0)
    expected = literal.appearance(literal.hyperimage([a], grid_a), literal.hyperimage([b], grid_b))
    assert_close(correlate([a], [b], grid_a, grid_b).dense(), expected, rtol=1e-4, atol=1e-6)


def test_weights_count_in_products_and_squared_norms() -> None:
    """As if each layer's features were multiplied by the root of its weight in both images."""
    generator = torch.Generator().manual_seed(4)
    shapes = [(6, 8, 5), (6, 8, 3), (3, 4, 7)]
    a, b = ([torch.randn(*s, generator=generator, dtype=torch.float64) for s in shapes] for _ in range(2))
    weights, grid = torch.tensor([0.3, 1.0, 0.6], dtype=torch.float64), Grid(6, 8, 4.0)
    scaled = [[w.sqrt() * x for w, x in zip(weights, side, strict=True)] for side in (a, b)]
    expected = literal.match(*scaled, grid, grid).appearance
    assert_close(correlate(a, b, grid, grid, weights=weights).dense(), expected)
