"""The weak loss: the entropy of a pair against its definition, the compiled entropy, the coarser grid."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor
from torch.testing import assert_close

from dhpf.fast.threads import in_threads, parts
from dhpf.grid import Grid
from dhpf.losses.weak import (
    _direction_entropy,
    coarser_grid,
    gradient_at_once,
    pair_entropy,
)
from dhpf.model.correlation import Correlation, Level, correlate
from dhpf.model.matching import Voting, strongest_matches
from tests import literal

GRID_A, GRID_B = Grid(12, 8, 4.0), Grid(9, 10, 4.0)
SIZES_A, SIZES_B = [(12, 8), (12, 8), (6, 4), (3, 1)], [(9, 10), (9, 10), (5, 5), (2, 1)]
CHANNELS = [4, 6, 6, 5]
CPU = torch.device("cpu")


def random_blocks(seed: int, dtype: torch.dtype) -> list[Tensor]:
    """Of both sides, one after the other; and the layers' weights."""
    generator = torch.Generator().manual_seed(seed)
    made = [
        torch.randn(*size, c, generator=generator)
        for sizes in (SIZES_A, SIZES_B)
        for size, c in zip(sizes, CHANNELS, strict=True)
    ]
    weights = torch.tensor([1.0, 0.0, 0.6, 1.0])
    return [tensor.to(dtype).requires_grad_() for tensor in (*made, weights)]


def correlation_of(inputs: list[Tensor]) -> Correlation:
    return correlate(inputs[:4], inputs[4:8], GRID_A, GRID_B, weights=inputs[8])


def literal_entropy(inputs: list[Tensor]) -> Tensor:
    """By the definition: everything of the whole matrix."""
    roots = [weight.sqrt() if weight > 0 else weight for weight in inputs[8]]
    sides = [
        [root * block for root, block in zip(roots, blocks, strict=True)]
        for blocks in (inputs[:4], inputs[4:8])
    ]
    found = literal.match(*sides, GRID_A, GRID_B)
    confidence = found.appearance * found.votes.detach()
    return literal.correlation_entropy(literal.mutual(confidence)[None], GRID_A, GRID_B)[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_entropy_of_a_pair_and_its_gradients_are_the_definitions(dtype: torch.dtype) -> None:
    inputs, wanted = random_blocks(0, dtype), random_blocks(0, torch.float64)
    correlation = correlation_of(inputs)
    value = pair_entropy(correlation, strongest_matches(correlation, Voting()))
    expected = literal_entropy(wanted)
    loose = dtype == torch.float32
    assert value.item() == pytest.approx(expected.item(), rel=1e-5 if loose else 1e-9)
    # A layer of weight 0 has a gradient here, but none through the root of its weight: it is left out.
    mine = torch.autograd.grad(value, [inputs[n] for n in (0, 2, 3, 4, 6, 7)])
    theirs = torch.autograd.grad(expected, [wanted[n] for n in (0, 2, 3, 4, 6, 7)])
    for found, true in zip(mine, theirs, strict=True):
        assert (found - true).norm() < (1e-4 if loose else 1e-9) * true.norm()


def test_a_gradient_that_is_taken_at_once_is_the_same() -> None:
    inputs = random_blocks(1, torch.float32)
    strongest = strongest_matches(correlation_of(inputs), Voting())

    def entropy(tensors: list[Tensor]) -> Tensor:
        return pair_entropy(correlation_of(tensors), strongest)

    later, now = entropy(inputs), gradient_at_once(entropy, inputs)
    assert later.item() == now.item()
    expected = torch.autograd.grad(3 * later, inputs)
    assert_close(torch.autograd.grad(3 * now, inputs), expected)


def direction_inputs(dtype: torch.dtype) -> tuple[list[Tensor], Tensor]:
    """Lengths and maxima of both sides, a matrix of products, and votes."""
    generator = torch.Generator().manual_seed(4)

    def random(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator).to(dtype)

    def contrasted(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).to(dtype)

    n, m = GRID_A.cells, GRID_B.cells
    inputs = [random(n) + 1, random(m) + 1, random(n) + 2, random(m) + 2, contrasted(n, m)]
    votes = random(GRID_A.rows + GRID_B.rows - 1, GRID_A.columns + GRID_B.columns - 1) * 4
    return [t.requires_grad_() for t in inputs], votes


def entropy_of(inputs: list[Tensor], votes: Tensor) -> Tensor:
    """Of one direction; the matrix enters as products with a unit matrix."""
    lengths_a, lengths_b, maxima_a, maxima_b, matrix = inputs
    unit = torch.eye(matrix.shape[1], dtype=matrix.dtype)
    base = Level(matrix.view(*GRID_A.shape, -1), unit.view(*GRID_B.shape, -1))
    correlation = Correlation(GRID_A, GRID_B, base, (), lengths_a, lengths_b, 1e-3)
    return _direction_entropy(correlation, maxima_a, maxima_b, votes)


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
    expected = entropy_of(double, votes)  # composed of torch operations
    assert value.item() == pytest.approx(expected.item(), rel=1e-5)
    wanted = torch.autograd.grad(expected, double)
    # Scaling a column changes nothing but through epsilon: its own gradients are what is left of large sums.
    largest = max(gradient.norm() for gradient in wanted)
    for mine, theirs in zip(gradients, wanted, strict=True):
        assert (mine - theirs).norm() < 1e-6 * largest


def test_gradient_of_the_composition() -> None:
    inputs, votes = direction_inputs(torch.float64)
    assert torch.autograd.gradcheck(lambda *t: entropy_of(list(t), votes), inputs, atol=1e-6, fast_mode=True)


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
    coarse = coarser_grid(Grid(height, width, 4.0), torch.zeros(1, dtype=torch.float64))
    small = max(1, height // 4) * max(1, width // 4)
    fine = torch.randn(len(coarse.cells), 3, generator=generator, dtype=torch.float64)
    shrunken = torch.randn(small, 3, generator=generator, dtype=torch.float64)
    one, other = (coarse.shrink(fine) * shrunken).sum(), (fine * coarse.spread(shrunken)).sum()
    assert_close(one, other)


@settings(deadline=None, max_examples=25)
@given(st.integers(4, 19), st.integers(4, 19), st.integers(0, 2**31))
def test_shrinking_reads_all_that_matters(height: int, width: int, seed: int) -> None:
    values = torch.rand(height * width, 2, generator=torch.Generator().manual_seed(seed))
    coarse = coarser_grid(Grid(height, width, 4.0), values)
    maps = values.T.reshape(1, 2, height, width)
    expected = torch.nn.functional.interpolate(
        maps, (height // 4, width // 4), mode="bilinear", align_corners=True
    )
    assert_close(coarse.shrink(values[coarse.cells]), expected[0].flatten(1).T)


@given(st.integers(0, 200))
def test_threads_cover_everything_once(count: int) -> None:
    seen: list[int] = []
    in_threads(count, lambda start, stop: seen.extend(range(start, stop)))
    assert sorted(seen) == list(range(count))
    assert len(parts(count)) <= 16
