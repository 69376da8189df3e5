"""Matching by probabilities: equal to loops over cells, and answers that are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from dhpf.grid import Grid
from dhpf.model.correlation import correlate
from dhpf.model.hough import bin_side, gaussian
from dhpf.model.scores import MirroredScores
from dhpf.model.soft_matching import SoftMatching, kernel_soft_argmax, soft_match

GRID_A, GRID_B = Grid(5, 7, 7.0, 6.5), Grid(4, 3, 14.0, 6.5)
SMALL_A = Grid(3, 4, 14.0, 6.5)


def random_blocks(seed: int) -> tuple[list[Tensor], list[Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    blocks_a = [torch.randn(3, 4, c, generator=generator, dtype=torch.float64) for c in (5, 2)]
    blocks_b = [torch.randn(4, 3, c, generator=generator, dtype=torch.float64) for c in (5, 2)]
    return blocks_a, blocks_b


def literal_scores(a: Tensor, b: Tensor, matching: SoftMatching) -> Tensor:
    """a (3, 4, C) and b (4, 3, C) -> scores of the 5 x 7 source cells with the 4 x 3 target cells."""

    def cosine(one: Tensor, other: Tensor) -> float:
        return float(one @ other / (one.norm() * other.norm()))

    targets = [b[y, x] for y in range(4) for x in range(3)]
    small = [[cosine(a[y, x], t) / matching.temperature for t in targets] for y in range(3) for x in range(4)]
    columns = [math.log(sum(math.exp(row[t]) for row in small)) for t in range(12)]
    # Votes: every match of the coarse cells votes for its offset by how much both choose each other.
    side = bin_side(SMALL_A, GRID_B) / 14
    voters = []
    for cell, row in enumerate(small):
        total = sum(math.exp(value) for value in row)
        for t, value in enumerate(row):
            both = math.exp(value) / total * math.exp(value - columns[t])
            voters.append((t // 3 - cell // 4, t % 3 - cell % 4, both))

    def votes(dy: int, dx: int) -> float:
        distances = torch.tensor(
            [[(dy - y) / side, (dx - x) / side] for y, x, _ in voters], dtype=torch.float64
        )
        return float(
            gaussian(distances).prod(1) @ torch.tensor([v for _, _, v in voters], dtype=torch.float64)
        )

    table = {(dy, dx): votes(dy, dx) for dy in range(-2, 4) for dx in range(-3, 3)}

    def log_vote(y: int, x: int, t: int) -> float:
        return math.log(max(table[t // 3 - y, t % 3 - x] / max(table.values()), 1e-6))

    scores = torch.zeros(35, 12, dtype=torch.float64)
    for row in range(5):
        for column in range(7):
            y, x = row / 2, column / 2  # in cells of the blocks
            around = [
                (j, i, (1 - abs(y - j)) * (1 - abs(x - i)))
                for j in {math.floor(y), math.ceil(y)}
                for i in {math.floor(x), math.ceil(x)}
            ]
            feature = sum(weight * a[j, i] for j, i, weight in around)
            assert isinstance(feature, Tensor)
            for t, target in enumerate(targets):
                prior = sum(weight * log_vote(j, i, t) for j, i, weight in around)
                similar = cosine(feature, target) / matching.temperature
                scores[row * 7 + column, t] = 2 * similar - columns[t] + matching.vote_power * prior
    return scores


@pytest.mark.parametrize("power", [0.0, 0.5])
def test_scores_and_flow_by_loops(power: float) -> None:
    blocks_a, blocks_b = random_blocks(0)
    matching = SoftMatching(0.3, power, sigma=1.0)
    correlation = correlate(blocks_a, blocks_b, GRID_A, GRID_B)
    flow, scores = soft_match(correlation, SMALL_A, matching)
    expected = literal_scores(torch.cat(blocks_a, 2), torch.cat(blocks_b, 2), matching)
    assert_close(scores.rows(torch.arange(35)), expected, rtol=1e-9, atol=1e-9)
    for cell in range(35):
        probability = expected[cell].softmax(0)
        best = int(probability.argmax())
        total, y, x = 0.0, 0.0, 0.0
        for t in range(12):
            distance = (t // 3 - best // 3) ** 2 + (t % 3 - best % 3) ** 2
            weight = float(probability[t]) * math.exp(-distance / 2)
            total, y, x = total + weight, y + weight * (t // 3), x + weight * (t % 3)
        landed = np.array([6.5 + 14 * x / total, 6.5 + 14 * y / total])
        centre = GRID_A.centres().reshape(-1, 2)[cell]
        found = flow.displacement.reshape(-1, 2)[cell] + centre
        np.testing.assert_allclose(found, landed, rtol=1e-9)
        assert flow.confidence.reshape(-1)[cell] == pytest.approx(total, rel=1e-9)
    assert_close(scores.of_cells(torch.tensor([8])).flatten(), expected[8].softmax(0))


def test_float32_agrees() -> None:
    blocks_a, blocks_b = random_blocks(1)
    exact, _ = soft_match(correlate(blocks_a, blocks_b, GRID_A, GRID_B), SMALL_A, SoftMatching(0.3))
    rounded = correlate([b.float() for b in blocks_a], [b.float() for b in blocks_b], GRID_A, GRID_B)
    found, _ = soft_match(rounded, SMALL_A, SoftMatching(0.3))
    np.testing.assert_allclose(found.displacement, exact.displacement, atol=1e-3)
    np.testing.assert_allclose(found.confidence, exact.confidence, atol=1e-4)


def test_an_image_matches_itself() -> None:
    block = torch.randn(6, 8, 16, generator=torch.Generator().manual_seed(2))
    grid, small = Grid(11, 15, 7.0, 6.5), Grid(6, 8, 14.0, 6.5)
    flow, _ = soft_match(correlate([block], [block], grid, small), small, SoftMatching(0.05))
    at_patches = flow.displacement[::2, ::2]
    assert np.abs(at_patches).max() < 0.1  # pixels, of cells that are 14 apart
    assert flow.confidence[::2, ::2].min() > 0.95


def test_soft_argmax_lies_between_two_equal_cells() -> None:
    scores = torch.full((2, 20), -50.0)
    scores[0, [6, 7]] = 3.0  # neighbours in a row of five
    scores[1, 19] = 0.0
    where, sure = kernel_soft_argmax(scores, Grid(4, 5, 10.0, 2.0), sigma=2.0)
    beside = math.exp(-1 / 8)  # the kernel at a distance of one cell
    # Cells 6 and 7 lie at x = 12 and 22, y = 12; the first of equals is the centre of the kernel.
    assert where[0].tolist() == pytest.approx([12 + 10 * beside / (1 + beside), 12])
    assert where[1].tolist() == pytest.approx([42, 32], abs=1e-4)
    assert sure.tolist() == pytest.approx([(1 + beside) / 2, 1.0], abs=1e-6)


def test_scores_of_a_mirrored_target_are_read_where_cells_lie() -> None:
    class Ramp:
        grid = Grid(1, 4, 4.0)  # cells at x = 0, 4, 8, 12 of an input that is 16 wide
        nbytes = 0

        def of_cells(self, cells: Tensor) -> Tensor:
            return torch.tensor([[0.0, 4.0, 8.0, 12.0]])  # each cell's own x

    found = MirroredScores(Ramp(), 16).of_cells(torch.tensor([0]))
    assert found.tolist() == [[12.0, 11.0, 7.0, 3.0]]  # 15 - x; what lies beyond the last cell is its
