"""The fast path against the literal one, over sizes, layer sets and batch sizes."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch.testing import assert_close

from dhpf.model.correlation import FactoredCorrelation, correlate
from dhpf.model.hough import Votes, grid_cells, hough_space, offset_windows, spread_votes, sum_by_offset
from dhpf.model.matching import match_cells
from dhpf.model.motion import motion_space
from dhpf.model.passes import Block, CompiledPasses, TorchPasses
from tests import literal

side = st.integers(16, 120)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[list[torch.Tensor], list[torch.Tensor], tuple[int, int], tuple[int, int]]:
    """Feature blocks of two images of any size, at some of the four resolutions of a ResNet."""
    sizes = (draw(side), draw(side)), (draw(side), draw(side))
    layers = draw(st.lists(st.integers(0, 3), min_size=1, max_size=5).map(sorted))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    blocks: tuple[list[torch.Tensor], list[torch.Tensor]] = ([], [])
    for level in layers:
        # With few channels, interpolated features pass through zero; float32 has no relative precision there.
        channels = draw(st.integers(6, 9))
        for size, into in zip(sizes, blocks, strict=True):
            shape = [grid_cells(pixels) for pixels in size]
            for _ in range(level):
                shape = [(cells + 1) // 2 for cells in shape]
            into.append(torch.randn(channels, *shape, generator=generator, dtype=torch.float64))
    return *blocks, *sizes


def grid(size: tuple[int, int]) -> tuple[int, int]:
    return grid_cells(size[0]), grid_cells(size[1])


def factored(a, b, size_a, size_b, dtype) -> FactoredCorrelation:
    return correlate([x.to(dtype) for x in a], [x.to(dtype) for x in b], grid(size_a), grid(size_b))


@settings(deadline=None, max_examples=60)
@given(pairs())
def test_torch_passes_equal_the_literal_method_in_float64(pair) -> None:
    a, b, size_a, size_b = pair
    expected = literal.match(a, b, grid(size_a), grid(size_b), size_a, size_b)
    correlation = factored(a, b, size_a, size_b, torch.float64)
    height, width = grid(size_a)
    p = torch.empty(height * width, len(correlation.norm_b), dtype=torch.float64)
    sums = TorchPasses(correlation).appearance(Block(0, height, width), p)
    assert_close(p, expected.appearance, rtol=1e-9, atol=1e-12)
    table = hough_space(size_a, size_b, torch.float64, torch.device("cpu")).votes(sums)
    spread = spread_votes(table, 0, height, grid(size_a), grid(size_b))
    assert_close(spread, expected.votes, rtol=1e-9, atol=1e-12)


@settings(deadline=None, max_examples=60)
@given(pairs(), st.sampled_from([0, 10**9]), st.booleans())
def test_match_cells_finds_the_literal_best_targets(pair, matrix_bytes: int, compiled: bool) -> None:
    a, b, size_a, size_b = pair
    expected = literal.match(a, b, grid(size_a), grid(size_b), size_a, size_b)
    correlation = factored(a, b, size_a, size_b, torch.float32)
    space = hough_space(size_a, size_b, torch.float32, torch.device("cpu"))
    found = match_cells(correlation, space, matrix_bytes, compiled)
    top = expected.filtered.amax(1)
    reached = expected.filtered.gather(1, found.best[:, None])[:, 0]
    assert_close(reached, top, rtol=1e-3, atol=float(top.max()) * 1e-5)  # equal up to ties
    scale = max(float(expected.votes.max()), 1e-30)
    assert_close(found.confidence.double(), top / scale, rtol=1e-3, atol=1e-5)
    assert float(found.confidence.min()) >= 0 and float(found.confidence.max()) <= 1 + 1e-6


def test_compiled_and_torch_passes_agree_on_every_block() -> None:
    generator = torch.Generator().manual_seed(0)
    shapes = [(8, 15, 20), (32, 15, 20), (16, 8, 10), (24, 4, 5), (40, 2, 3)]
    a, b = ([torch.randn(*s, generator=generator) for s in shapes] for _ in range(2))
    correlation = correlate(a, b, (15, 20), (15, 20))
    windows = offset_windows((15, 20), (15, 20), torch.device("cpu"))
    votes = Votes(torch.rand(29, 39, generator=generator), windows)
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(3) as pool:
        compiled, plain = CompiledPasses(correlation, pool, 3), TorchPasses(correlation)
        for block in (Block(0, 15, 20), Block(0, 1, 20), Block(4, 9, 20), Block(14, 15, 20)):
            cells = (block.stop - block.first) * 20
            p, q = torch.empty(cells, 300), torch.empty(cells, 300)
            assert_close(compiled.appearance(block, p), plain.appearance(block, q), rtol=1e-5, atol=1e-5)
            assert_close(p, q, rtol=1e-5, atol=1e-6)
            rows, columns = plain.maxima(block, q, votes)
            lines, same_columns = compiled.maxima(block, q, votes)
            assert_close(lines.amax(2).flatten(), rows)
            assert_close(same_columns, columns)
            index, value = compiled.best(block, q, votes, lines, columns)
            expected_index, expected_value = plain.best(block, q, votes, rows, columns)
            assert torch.equal(index, expected_index)
            assert_close(value, expected_value)
            index, value = compiled.best_of_columns(block, q, votes, lines, columns)
            expected_index, expected_value = plain.best_of_columns(block, q, votes, rows, columns)
            assert torch.equal(index, expected_index)
            assert_close(value, expected_value)


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("side", [4, 15, 60])
def test_where_nothing_correlates_there_is_no_confidence(side: int, compiled: bool, twice: bool) -> None:
    ones, grid_size = torch.ones(8, side, side), (side, side)
    size = (4 * side, 4 * side), (4 * side, 4 * side), torch.float32, torch.device("cpu")
    space = hough_space(*size)._replace(second=motion_space(*size) if twice else None)
    found = match_cells(correlate([ones], [-ones], grid_size, grid_size), space, compiled=compiled)
    assert not found.confidence.any()
    assert not found.best.any()  # of equal targets, the first


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_result_does_not_depend_on_the_number_of_threads(threads: int, twice: bool) -> None:
    generator = torch.Generator().manual_seed(1)
    a, b = ([torch.randn(16, s, s, generator=generator) for s in (24, 12, 6)] for _ in range(2))
    size = (96, 96), (96, 96), torch.float32, torch.device("cpu")
    space = hough_space(*size)._replace(second=motion_space(*size) if twice else None)
    before = torch.get_num_threads()
    correlation = correlate(a, b, (24, 24), (24, 24))
    expected = match_cells(correlation, space)
    try:
        torch.set_num_threads(threads)
        found = match_cells(correlation, space)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found.best, expected.best)


def test_sums_by_offset_of_a_hand_made_matrix() -> None:
    # One source row of two cells, one target row of three; match (x, x') holds 10 x + x'.
    block = torch.tensor([[0.0, 1.0, 2.0], [10.0, 11.0, 12.0]])
    # Offsets -1: (1, 0); 0: (0, 0), (1, 1); 1: (0, 1), (1, 2); 2: (0, 2).
    assert_close(sum_by_offset(block, 0, (1, 2), (1, 3)), torch.tensor([[10.0, 11.0, 13.0, 2.0]]))


def test_a_match_hears_its_own_offset_most() -> None:
    space = hough_space((240, 240), (240, 240), torch.float64, torch.device("cpu"))
    one = torch.zeros(119, 119, dtype=torch.float64)
    one[59, 59] = 1.0  # a single match, with offset 0
    votes = space.votes(one)
    peak = literal.gaussian_7x7()[3, 3]
    assert_close(votes[59, 59], peak)
    assert float(votes.max()) == pytest.approx(float(peak), rel=1e-6)
    assert float(votes[59, 70]) == 0.0  # 44 pixels away: beyond three bins of 5.3


@pytest.mark.parametrize("compiled", [True, False])
def test_the_papers_plain_cosine_is_an_option(compiled: bool) -> None:
    a = torch.zeros(8, 3, 4)
    a[0, 1, 2] = 1e-3  # tiny, so that the published epsilon shows; all other cells are zero
    a[1, 0, 0] = 1e-3
    space = hough_space((12, 16), (12, 16), torch.float32, torch.device("cpu"))
    for epsilon, cosine in ((1e-3, 1e-6 / (1e-6 + 1e-3)), (0.0, 1.0)):
        correlation = correlate([a], [a], (3, 4), (3, 4), epsilon)
        p = correlation.appearance(0, 3, torch.empty(12, 12))
        assert float(p[6, 6]) == pytest.approx(cosine**2, rel=1e-5)
        assert float(p.sum()) == pytest.approx(
            2 * cosine**2, rel=1e-5
        )  # cell 0 with itself, cell 6 with itself
        found = match_cells(correlation, space, compiled=compiled)
        assert found.best[[0, 6]].tolist() == [0, 6] and bool(torch.isfinite(found.confidence).all())


def test_resizing_a_single_row_or_column() -> None:
    a, b = torch.randn(4, 1, 9), torch.randn(4, 9, 1)
    correlation = correlate([a], [b], (3, 17), (20, 1))
    expected = literal.appearance(literal.hyperimage([a], (3, 17)), literal.hyperimage([b], (20, 1)))
    out = torch.empty(51, 20)
    assert_close(correlation.appearance(0, 3, out), expected, rtol=1e-4, atol=1e-6)
