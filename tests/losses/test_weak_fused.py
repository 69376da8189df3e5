"""The weak loss's parts: products at every resolution, the compiled entropy, the coarser grid."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor
from torch.testing import assert_close

from dhpf.losses.levels import LevelProducts, SomeCells, level_products
from dhpf.losses.threads import in_threads, parts
from dhpf.losses.weak import coarser_grid, correlation_entropy, sampled_entropy
from dhpf.losses.weak_fused import Side, direction_entropy
from dhpf.model.hough import spread_votes, votes_of_cells
from dhpf.model.mutual import mutual_filter
from tests import literal

GRID_A, GRID_B = (12, 8), (9, 10)
SIZES_A, SIZES_B = [(12, 8), (12, 8), (6, 4), (3, 1)], [(9, 10), (9, 10), (5, 5), (2, 1)]
CHANNELS = [4, 6, 6, 5]


def random_products(seed: int, dtype: torch.dtype) -> tuple[LevelProducts, list[Tensor], Tensor]:
    """Of random blocks, with the blocks of both sides, the weights, and the matrix as it is written down."""
    generator = torch.Generator().manual_seed(seed)

    def blocks(sizes: list[tuple[int, int]]) -> list[Tensor]:
        made = [torch.randn(*size, c, generator=generator) for size, c in zip(sizes, CHANNELS, strict=True)]
        return [block.to(dtype).requires_grad_() for block in made]

    a, b = blocks(SIZES_A), blocks(SIZES_B)
    weights = torch.tensor([1.0, 0.0, 0.6, 1.0], dtype=dtype, requires_grad=True)
    images = (
        literal.hyperimage([x.permute(2, 0, 1) for x in side], grid)
        for side, grid in ((a, GRID_A), (b, GRID_B))
    )
    first, second = images
    matrix = (weights.repeat_interleave(torch.tensor(CHANNELS))[:, None] * first).T @ second
    return level_products(a, b, weights, GRID_A, GRID_B), [*a, *b, weights], matrix


def assert_same_with_gradients(found: Tensor, expected: Tensor, inputs: list[Tensor]) -> None:
    assert_close(found, expected, rtol=1e-4, atol=1e-4)
    probe = torch.randn(found.shape, generator=torch.Generator().manual_seed(1), dtype=found.dtype)
    for mine, theirs in zip(
        torch.autograd.grad((found * probe).sum(), inputs, retain_graph=True),
        torch.autograd.grad((expected * probe).sum(), inputs),
        strict=True,
    ):
        assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("swap", [False, True])
def test_rows_of_products(dtype: torch.dtype, swap: bool) -> None:
    products, inputs, matrix = random_products(0, dtype)
    if swap:
        products, matrix = products.swap(), matrix.T
    some = SomeCells(torch.tensor([0, 3, 8]), torch.tensor([1, 2, 7]), products.grid_a)
    assert_same_with_gradients(products.of_cells(some), matrix[some.cells], inputs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_single_products(dtype: torch.dtype) -> None:
    products, inputs, matrix = random_products(1, dtype)
    a, b = torch.tensor([0, 95, 17, 17, 50]), torch.tensor([0, 89, 3, 3, 41])
    assert_same_with_gradients(products.of_matches(a, b), matrix[a, b], inputs)


def test_products_without_a_base_block() -> None:
    products, inputs, _ = random_products(2, torch.float32)
    coarse = LevelProducts(None, products.coarse, GRID_A, GRID_B)
    some = SomeCells(torch.arange(12), torch.arange(8), GRID_A)
    whole = coarse.of_cells(some)
    a, b = torch.tensor([0, 40]), torch.tensor([7, 80])
    assert_same_with_gradients(coarse.of_matches(a, b), whole[a, b], inputs[2:4])


def direction_inputs(dtype: torch.dtype) -> tuple[list[Tensor], Tensor]:
    """Lengths and maxima of both sides, a matrix of products, and votes."""
    generator = torch.Generator().manual_seed(4)

    def random(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator).to(dtype)

    def contrasted(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).to(dtype)

    n, m = GRID_A[0] * GRID_A[1], GRID_B[0] * GRID_B[1]
    inputs = [random(n) + 1, random(m) + 1, random(n) + 2, random(m) + 2, contrasted(n, m)]
    votes = random(GRID_A[0] + GRID_B[0] - 1, GRID_A[1] + GRID_B[1] - 1) * 4
    return [t.requires_grad_() for t in inputs], votes


def entropy_of(inputs: list[Tensor], votes: Tensor) -> Tensor:
    """Through :func:`direction_entropy`; the matrix enters as products with a unit matrix."""
    lengths_a, lengths_b, maxima_a, maxima_b, matrix = inputs
    base = matrix, torch.eye(matrix.shape[1], dtype=matrix.dtype)
    products = LevelProducts(base, (), GRID_A, GRID_B)
    return direction_entropy(products, Side(lengths_a, maxima_a), Side(lengths_b, maxima_b), votes)


@pytest.mark.parametrize("threads", [1, 3])
def test_compiled_entropy_equals_the_composition(threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        single, votes = direction_inputs(torch.float32)
        value = entropy_of(single, votes)
        gradients = torch.autograd.grad(value, single)
    finally:
        torch.set_num_threads(before)
    double, votes = direction_inputs(torch.float64)
    lengths_a, lengths_b, maxima_a, maxima_b, matrix = double
    coarse = coarser_grid(GRID_A, votes)
    cells = coarse.read.cells
    cosine = matrix[cells] / (lengths_a[cells][:, None] * lengths_b + 1e-3)
    confidence = cosine.relu().square() * votes_of_cells(votes, cells, GRID_A, GRID_B)
    expected = sampled_entropy(confidence, maxima_a[cells], maxima_b, coarse)
    assert value.item() == pytest.approx(expected.item(), rel=1e-5)
    wanted = torch.autograd.grad(expected, double)
    # Scaling a column changes nothing but through epsilon: its own gradients are what is left of large sums.
    largest = max(gradient.norm() for gradient in wanted)
    for mine, theirs in zip(gradients, wanted, strict=True):
        assert (mine - theirs).norm() < 1e-6 * largest


def test_gradient_of_the_composition() -> None:
    inputs, votes = direction_inputs(torch.float64)
    assert torch.autograd.gradcheck(lambda *t: entropy_of(list(t), votes), inputs, atol=1e-6, fast_mode=True)


def test_both_directions_are_the_entropy_of_the_whole_matrix() -> None:
    inputs, votes = direction_inputs(torch.float64)
    lengths_a, lengths_b, *_, matrix = inputs
    cosine = matrix / (lengths_a[:, None] * lengths_b + 1e-3)
    confidence = cosine.relu().square() * spread_votes(votes, 0, GRID_A[0], GRID_A, GRID_B)
    maxima = confidence.amax(1), confidence.amax(0)
    expected = correlation_entropy(mutual_filter(confidence, *maxima)[None], GRID_A, GRID_B)[0]
    products = LevelProducts((matrix, torch.eye(90, dtype=torch.float64)), (), GRID_A, GRID_B)
    a, b = Side(lengths_a, maxima[0]), Side(lengths_b, maxima[1])
    found = (
        direction_entropy(products, a, b, votes)
        + direction_entropy(products.swap(), b, a, votes.flip((0, 1)))
    ) / 2
    assert found.item() == pytest.approx(expected.item(), rel=1e-9)


def test_nothing_matches_nothing() -> None:
    inputs, votes = direction_inputs(torch.float32)
    with torch.no_grad():
        for n in (2, 3, 4):
            inputs[n].zero_()
    value = entropy_of(inputs, votes)
    assert value.item() == pytest.approx(0, abs=1e-20)
    assert all(gradient.norm() == 0 for gradient in torch.autograd.grad(value, inputs))


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 19), st.integers(1, 19), st.integers(0, 2**31))
def test_spreading_is_the_adjoint_of_shrinking(height: int, width: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    coarse = coarser_grid((height, width), torch.zeros(1, dtype=torch.float64))
    small = max(1, height // 4) * max(1, width // 4)
    fine = torch.randn(len(coarse.read.cells), 3, generator=generator, dtype=torch.float64)
    shrunken = torch.randn(small, 3, generator=generator, dtype=torch.float64)
    one, other = (coarse.shrink(fine) * shrunken).sum(), (fine * coarse.spread(shrunken)).sum()
    assert_close(one, other)


@settings(deadline=None, max_examples=25)
@given(st.integers(4, 19), st.integers(4, 19), st.integers(0, 2**31))
def test_shrinking_reads_all_that_matters(height: int, width: int, seed: int) -> None:
    values = torch.rand(height * width, 2, generator=torch.Generator().manual_seed(seed))
    coarse = coarser_grid((height, width), values)
    maps = values.T.reshape(1, 2, height, width)
    expected = torch.nn.functional.interpolate(
        maps, (height // 4, width // 4), mode="bilinear", align_corners=True
    )
    assert_close(coarse.shrink(values[coarse.read.cells]), expected[0].flatten(1).T)


@given(st.integers(0, 200))
def test_threads_cover_everything_once(count: int) -> None:
    seen: list[int] = []
    in_threads(count, lambda start, stop: seen.extend(range(start, stop)))
    assert sorted(seen) == list(range(count))
    assert len(parts(count)) <= 16
