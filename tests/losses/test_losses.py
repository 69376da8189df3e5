"""Losses: hand-computed values, and gradients of the few rows against those of the whole literal matrix."""

from __future__ import annotations

import math

import hypothesis.strategies as st
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from torch.testing import assert_close

from dhpf.grid import Grid
from dhpf.losses.layer_rate import layer_rate_loss
from dhpf.losses.strong import importance, strong_loss, target_distributions
from dhpf.losses.weak import weak_loss
from dhpf.model.correlation import correlate
from tests import literal

SIZES = [(12, 10), (12, 10), (6, 5), (3, 3)]  # of four layers; the first is the base grid
GRID = Grid(12, 10, 4.0)


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 2**31))
def test_rows_and_their_gradients_equal_the_literal_matrix(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64, requires_grad=True)

    blocks_a, blocks_b = ([random(*size, 6) for size in SIZES] for _ in range(2))
    gates = torch.tensor([1.0, 1.0, 0.0, 1.0], dtype=torch.float64, requires_grad=True)
    inputs = [*blocks_a, *blocks_b, gates]
    for count in (5, 110):  # few rows, and so many that products are taken first
        cells = torch.randint(0, 120, (count,), generator=generator)
        probe = torch.randn(count, 120, generator=generator, dtype=torch.float64)
        found = correlate(blocks_a, blocks_b, GRID, GRID, weights=gates.square()).rows(cells)
        # Upsample, gate both sides, concatenate, cosine: all rows, of which some are taken.
        sides = [
            literal.hyperimage([gate * block for gate, block in zip(gates, blocks, strict=True)], GRID)
            for blocks in (blocks_a, blocks_b)
        ]
        expected = literal.appearance(*sides)[cells]
        assert_close(found, expected)
        for mine, theirs in zip(
            torch.autograd.grad((found * probe).sum(), inputs),
            torch.autograd.grad((expected * probe).sum(), inputs),
            strict=True,
        ):
            assert_close(mine, theirs)


def test_a_gate_that_enters_once_teaches_layers_that_are_off() -> None:
    generator = torch.Generator().manual_seed(0)
    blocks, others = ([torch.randn(*size, 6, generator=generator) for size in SIZES] for _ in range(2))
    gradients = {}
    for power in (1, 2):
        gates = torch.tensor([1.0, 0.0, 1.0, 0.0], requires_grad=True)
        rows = correlate(blocks, others, GRID, GRID, weights=gates**power).rows(torch.tensor([7, 50]))
        gradients[power] = torch.autograd.grad(rows.square().sum(), gates)[0]
    assert gradients[2][[1, 3]].abs().max() == 0  # squared: no gradient at 0
    assert gradients[1][[1, 3]].abs().min() > 0
    assert_close(gradients[2][[0, 2]], 2 * gradients[1][[0, 2]])


def test_importance_by_hand() -> None:
    predicted = torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 10.0], [60.0, 80.0]])
    assert_close(importance(predicted, torch.zeros(4, 2), 10.0), torch.tensor([0.0, 0.25, 1.0, 1.0]))


def test_strong_loss_by_hand() -> None:
    # Two targets: centred and divided by the sample deviation, two different values are +-1/sqrt(2).
    rows = torch.tensor([[3.0, 1.0], [0.0, 5.0]])
    targets = F.one_hot(torch.tensor([0, 0]), 2).float()
    right = math.log(1 + math.exp(-math.sqrt(2)))
    wrong = math.log(1 + math.exp(math.sqrt(2)))
    loss = strong_loss(rows, targets, torch.tensor([0.5, 1.0]))
    assert loss.item() == pytest.approx((0.5 * right + wrong) / 2, rel=1e-6)


@pytest.mark.parametrize(("stride", "offset"), [(4.0, 0.0), (14.0, 6.5)])
def test_target_distributions(stride: float, offset: float) -> None:
    grid = Grid(3, 4, stride, offset)
    points = torch.tensor([[2 * stride + offset, stride + offset]])  # column 2, row 1
    single = target_distributions(points, grid)
    assert single.nonzero().tolist() == [[0, 6]]
    wide = target_distributions(points, grid, 1.0)[0].view(3, 4)
    assert wide.sum().item() == pytest.approx(1)
    assert (wide[1, 2] / wide[1, 3]).item() == pytest.approx(math.exp(0.5))  # one cell away
    assert (wide[1, 2] / wide[0, 1]).item() == pytest.approx(math.exp(1.0))  # one down, one across


def test_a_flat_row_costs_the_logarithm_of_the_number_of_cells() -> None:
    target = F.one_hot(torch.tensor([7]), 50)
    loss = strong_loss(torch.full((1, 50), 0.3), target, torch.ones(1))
    assert loss.item() == pytest.approx(math.log(50), rel=1e-5)


def test_layer_rate_by_hand() -> None:
    on = torch.tensor([[1.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    assert layer_rate_loss(on, 0.5).item() == pytest.approx(0.25 + 0.25 + 0.0)


def test_entropy_of_certain_and_uniform_matches() -> None:
    def entropy(filtered: torch.Tensor) -> float:
        return literal.correlation_entropy(filtered, Grid(8, 8, 4.0), Grid(8, 8, 4.0)).item()

    assert entropy(torch.ones(1, 64, 64)) == pytest.approx(2.0)  # 2 x 2 coarse cells: 2 bits
    corner = torch.zeros(1, 64, 64)
    corner[0, :, 0] = 1.0  # every source cell is sure of target 0; target 0 could come from anywhere
    forward, backward = 0.0, 2.0 / 64  # the other 63 targets have no distribution: 0
    assert entropy(corner) == pytest.approx((forward + backward) / 2, abs=1e-6)


def test_weak_loss_falls_when_positive_pairs_become_surer() -> None:
    negative = torch.tensor([4.0, 6.0])
    assert weak_loss(torch.tensor([2.0, 3.0]), negative).item() == pytest.approx(0.5)
    assert weak_loss(torch.tensor([1.0, 1.0]), negative) < weak_loss(torch.tensor([2.0, 3.0]), negative)
