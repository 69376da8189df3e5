"""Losses: hand-computed values, and gradients of the few rows against those of the whole literal matrix."""

from __future__ import annotations

import math

import hypothesis.strategies as st
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from torch.testing import assert_close

from dhpf.losses.layer_rate import layer_rate_loss
from dhpf.losses.rows import appearance_rows
from dhpf.losses.strong import importance, nearest_cells, strong_loss, target_distributions
from dhpf.losses.weak import correlation_entropy, weak_loss
from tests import literal

SIZES = [(12, 10), (12, 10), (6, 5), (3, 3)]  # of four layers; the first is the base grid
GRID = (12, 10)


def literal_rows(blocks_a, blocks_b, gates, cells):
    """Upsample, gate both sides, concatenate, cosine: all rows, of which some are taken."""
    rows = []
    for pair in range(len(cells)):
        sides = []
        for blocks in (blocks_a, blocks_b):
            gated = [gates[pair, n] * block[pair] for n, block in enumerate(blocks)]
            sides.append(literal.hyperimage(gated, GRID))
        rows.append(literal.appearance(*sides)[cells[pair]])
    return torch.stack(rows)


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 2**31))
def test_rows_and_their_gradients_equal_the_literal_matrix(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64, requires_grad=True)

    blocks_a, blocks_b = ([random(2, 6, *size) for size in SIZES] for _ in range(2))
    gates = torch.tensor(
        [[1.0, 1.0, 0.0, 1.0], [1.0, 0.0, 1.0, 1.0]], dtype=torch.float64, requires_grad=True
    )
    cells = torch.randint(0, 120, (2, 5), generator=generator)
    probe = torch.randn(2, 5, 120, generator=generator, dtype=torch.float64)
    inputs = [*blocks_a, *blocks_b, gates]
    found = appearance_rows(blocks_a, blocks_b, gates.square(), cells, GRID, GRID)
    expected = literal_rows(blocks_a, blocks_b, gates, cells)
    assert_close(found, expected)
    for mine, theirs in zip(
        torch.autograd.grad((found * probe).sum(), inputs),
        torch.autograd.grad((expected * probe).sum(), inputs),
        strict=True,
    ):
        assert_close(mine, theirs)


def test_a_gate_that_enters_once_teaches_layers_that_are_off() -> None:
    generator = torch.Generator().manual_seed(0)
    blocks = [torch.randn(1, 6, *size, generator=generator) for size in SIZES]
    others = [torch.randn(1, 6, *size, generator=generator) for size in SIZES]
    cells = torch.tensor([[7, 50]])
    gradients = {}
    for power in (1, 2):
        gates = torch.tensor([[1.0, 0.0, 1.0, 0.0]], requires_grad=True)
        rows = appearance_rows(blocks, others, gates**power, cells, GRID, GRID)
        gradients[power] = torch.autograd.grad(rows.square().sum(), gates)[0][0]
    assert gradients[2][[1, 3]].abs().max() == 0  # squared: no gradient at 0
    assert gradients[1][[1, 3]].abs().min() > 0
    assert_close(gradients[2][[0, 2]], 2 * gradients[1][[0, 2]])


def test_nearest_cells() -> None:
    points = torch.tensor([[0.0, 0.0], [5.9, 0.0], [6.1, 9.0], [6.0, 0.0], [500.0, -3.0]])
    assert nearest_cells(points, (12, 10)).tolist() == [0, 1, 22, 1, 9]


def test_importance_by_hand() -> None:
    truth = torch.zeros(1, 4, 2)
    predicted = torch.tensor([[[0.0, 0.0], [3.0, 4.0], [0.0, 10.0], [60.0, 80.0]]])
    assert_close(importance(predicted, truth, torch.tensor([10.0])), torch.tensor([[0.0, 0.25, 1.0, 1.0]]))


def test_strong_loss_by_hand() -> None:
    # Two targets: centred and divided by the sample deviation, two different values are +-1/sqrt(2).
    rows = torch.tensor([[[3.0, 1.0], [0.0, 5.0], [9.0, 9.0]]])
    targets = F.one_hot(torch.tensor([[0, 0, 1]])).float()
    valid = torch.tensor([[True, True, False]])
    omega = torch.tensor([[0.5, 1.0, 1.0]])
    right = math.log(1 + math.exp(-math.sqrt(2)))
    wrong = math.log(1 + math.exp(math.sqrt(2)))
    result = strong_loss(rows, targets, valid, omega)
    assert result.loss.item() == pytest.approx((0.5 * right + wrong) / 2, rel=1e-6)
    assert_close(result.cross_entropy, torch.tensor([[right, wrong, 0.0]]))


def test_target_distributions() -> None:
    points = torch.tensor([[8.0, 4.0]])  # column 2, row 1
    single = target_distributions(points, (3, 4), 0.0)
    assert single.nonzero().tolist() == [[0, 6]]
    wide = target_distributions(points, (3, 4), 1.0)[0].view(3, 4)
    assert wide.sum().item() == pytest.approx(1)
    assert (wide[1, 2] / wide[1, 3]).item() == pytest.approx(math.exp(0.5))  # one cell away
    assert (wide[1, 2] / wide[0, 1]).item() == pytest.approx(math.exp(1.0))  # one down, one across


def test_a_flat_row_costs_the_logarithm_of_the_number_of_cells() -> None:
    target = F.one_hot(torch.tensor([[7]]), 50)
    result = strong_loss(torch.full((1, 1, 50), 0.3), target, torch.tensor([[True]]), torch.ones(1, 1))
    assert result.loss.item() == pytest.approx(math.log(50), rel=1e-5)


def test_layer_rate_by_hand() -> None:
    on = torch.tensor([[1.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    assert layer_rate_loss(on, 0.5).item() == pytest.approx(0.25 + 0.25 + 0.0)


def test_entropy_of_certain_and_uniform_matches() -> None:
    grid = (8, 8)
    uniform = torch.ones(1, 64, 64)
    assert correlation_entropy(uniform, grid, grid).item() == pytest.approx(2.0)  # 2 x 2 coarse cells: 2 bits
    corner = torch.zeros(1, 64, 64)
    corner[0, :, 0] = 1.0  # every source cell is sure of target 0; target 0 could come from anywhere
    forward, backward = 0.0, 2.0 / 64  # the other 63 targets have no distribution: 0
    assert correlation_entropy(corner, grid, grid).item() == pytest.approx((forward + backward) / 2, abs=1e-6)


def test_entropy_against_a_direct_computation_on_other_sizes() -> None:
    grid_a, grid_b = (8, 12), (16, 4)
    c = torch.rand(2, 96, 64, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    total = torch.zeros(2, dtype=torch.float64)
    for index in range(2):
        for matrix, grid in ((c[index], grid_b), (c[index].T, grid_a)):
            bits = []
            for row in matrix:
                coarse = (grid[0] // 4, grid[1] // 4)
                small = F.interpolate(
                    row.view(1, 1, *grid), coarse, mode="bilinear", align_corners=True
                ).flatten()
                q = small / small.sum()
                bits.append(-(q * q.log2()).sum())
            total[index] += torch.stack(bits).mean() / 2
    assert_close(correlation_entropy(c, grid_a, grid_b), total)


def test_weak_loss_falls_when_positive_pairs_become_surer() -> None:
    negative = torch.tensor([4.0, 6.0])
    assert weak_loss(torch.tensor([2.0, 3.0]), negative).item() == pytest.approx(0.5)
    assert weak_loss(torch.tensor([1.0, 1.0]), negative) < weak_loss(torch.tensor([2.0, 3.0]), negative)
