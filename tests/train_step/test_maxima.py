"""Where the largest confidences are, against a plain search."""

from __future__ import annotations

import pytest
import torch

from dhpf.model.correlation import FactoredCorrelation, correlate
from dhpf.model.hough import EqualVotes, hough_space, spread_votes
from dhpf.model.passes import Block, TorchPasses
from dhpf.train.maxima import best_matches

GRID = (11, 9)
SIZE = (44, 36)  # height, width


def random_correlation(seed: int, whole: bool) -> FactoredCorrelation:
    """``whole`` numbers make many values equal."""
    generator = torch.Generator().manual_seed(seed)

    def block(channels: int, *size: int) -> torch.Tensor:
        if whole:
            return torch.randint(0, 2, (channels, *size), generator=generator).float()
        return torch.randn(channels, *size, generator=generator)

    sides = ([block(2, *GRID)] if whole else [block(5, *GRID), block(7, 6, 5)] for _ in range(2))
    first, second = sides
    return correlate(first, second, GRID, GRID)


@pytest.mark.parametrize("hough", [True, False])
@pytest.mark.parametrize("whole", [True, False], ids=["ties", "distinct"])
@pytest.mark.parametrize("threads", [1, 2])
def test_best_matches(hough: bool, whole: bool, threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    space = hough_space(SIZE, SIZE, torch.float32, torch.device("cpu"))
    space = space if hough else EqualVotes(*space)
    try:
        for seed in range(4):
            correlation = random_correlation(seed, whole)
            found = best_matches(correlation, space)
            matrix = torch.empty(99, 99)
            sums = TorchPasses(correlation).appearance(Block(0, *GRID), matrix)
            assert torch.allclose(found.votes, space.votes(sums), rtol=1e-4)
            confidence = matrix * spread_votes(found.votes, 0, GRID[0], GRID, GRID)
            rows, columns = confidence.amax(1), confidence.amax(0)
            chosen = (
                confidence[torch.arange(99), found.of_rows],
                confidence[found.of_columns, torch.arange(99)],
            )
            assert torch.allclose(chosen[0], rows, rtol=1e-5)
            assert torch.allclose(chosen[1], columns, rtol=1e-5)
            if whole and not hough:  # exactly equal values: the first is taken
                assert found.of_rows.tolist() == confidence.argmax(1).tolist()
                assert found.of_columns.tolist() == confidence.argmax(0).tolist()
    finally:
        torch.set_num_threads(before)
