"""4-D convolution and consensus against literal loops, symmetry, and the score by hand."""

from __future__ import annotations

from itertools import product
from math import e

import pytest
import torch
from torch import Tensor

from dhpf.model.consensus import Consensus, conv4d, cosines, matching_score, soft_mutual_filter


def literal_conv4d(matches: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Every output by itself, as a sum over its neighbours inside the array."""
    sizes, side = matches.shape[:4], weight.shape[-1]
    out = bias.expand(*sizes, len(bias)).clone()
    for place in product(*map(range, sizes)):
        for shift in product(range(side), repeat=4):
            near = tuple(p + s - side // 2 for p, s in zip(place, shift, strict=True))
            if all(0 <= n < size for n, size in zip(near, sizes, strict=True)):
                out[place] += weight[(..., *shift)] @ matches[near]
    return out


@pytest.mark.parametrize("side", [1, 3, 5])
def test_conv4d_is_the_literal_loop(side: int) -> None:
    generator = torch.Generator().manual_seed(side)
    matches = torch.randn(3, 2, 2, 3, 2, generator=generator, dtype=torch.float64)
    weight = torch.randn(3, 2, *[side] * 4, generator=generator, dtype=torch.float64)
    bias = torch.randn(3, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(conv4d(matches, weight, bias), literal_conv4d(matches, weight, bias))


def random_consensus() -> Consensus:
    consensus = Consensus(4, (3, 3))
    consensus.initialise(torch.Generator().manual_seed(1))
    return consensus


def test_consensus_does_not_depend_on_which_image_is_the_source() -> None:
    correlation = torch.rand(3, 4, 5, 2, generator=torch.Generator().manual_seed(0))
    consensus = random_consensus()
    there, back = consensus(correlation), consensus(correlation.permute(2, 3, 0, 1))
    assert there.shape == correlation.shape
    torch.testing.assert_close(there.permute(2, 3, 0, 1), back)
    assert not torch.allclose(consensus.convolutions[0](correlation[..., None])[..., 0], there)


def test_consensus_learns_that_neighbours_match_alike() -> None:
    """A kernel of ones adds a match's neighbours: one amid parallel matches beats a lonely one."""
    consensus = Consensus(1, (3,))
    torch.nn.init.ones_(consensus.convolutions[0].get_parameter("weight"))
    correlation = torch.zeros(1, 5, 1, 5)
    for cell in range(3):
        correlation[0, cell, 0, cell] = 1  # 0 -> 0, 1 -> 1, 2 -> 2
    correlation[0, 4, 0, 0] = 1
    found = consensus(correlation)[0, :, 0]
    assert found[1, 1] == 6  # three neighbours, in both orders
    assert found[4, 0] == 2  # only itself


def test_soft_mutual_filter_by_hand() -> None:
    given = torch.tensor([[1.0, 0.5], [0.4, 0.2]])
    expected = [[1, 0.5 * 0.5 * 1], [0.4 * 1 * 0.4, 0.2 * 0.5 * 0.4]]  # its share of the row's, the column's
    torch.testing.assert_close(soft_mutual_filter(given), torch.tensor(expected))


def test_cosines_by_hand() -> None:
    a = torch.tensor([[[3.0, 0.0], [0.0, 2.0]]])  # one row of two cells
    b = torch.tensor([[[1.0, 1.0]], [[-1.0, 0.0]]])  # two rows of one
    torch.testing.assert_close(cosines(a, b), torch.tensor([[0.5**0.5, 0.0], [0.5**0.5, 0.0]]))


def test_matching_score_by_hand() -> None:
    assert matching_score(torch.zeros(4, 2)) == pytest.approx((1 / 2 + 1 / 4) / 2)  # none chooses
    assert matching_score(50 * torch.eye(3)) == pytest.approx(1)
    # Rows (1, 0) and (0, 0): e / (e + 1) and 1 / 2; columns the same.
    assert matching_score(torch.tensor([[1.0, 0.0], [0.0, 0.0]])) == pytest.approx((e / (e + 1) + 0.5) / 2)
