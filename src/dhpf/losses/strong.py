"""Section 3.4, strong supervision: cross-entropy of the correlation's rows at annotated points, eq. (2), (3).

B pairs  K points of a pair (padded)  N' target cells
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..model.backbone import BASE_STRIDE
from ..model.correlation import Grid


class StrongLoss(NamedTuple):
    """The loss and what it was made of."""

    loss: Tensor  # scalar
    cross_entropy: Tensor  # (B, K) of each point, without its weight; 0 where there is none
    importance: Tensor  # (B, K) omega_m


def nearest_cells(points: Tensor, grid: Grid) -> Tensor:
    """Index of the cell nearest to each point, (..., 2) in pixels of the network's input -> (...)."""
    limits = torch.tensor([grid[1] - 1, grid[0] - 1], device=points.device)
    # A half rounds down: of two cells at the same distance, the first is taken.
    column_row = torch.ceil(points / BASE_STRIDE - 0.5).long().clamp_min(0).minimum(limits)
    return column_row[..., 1] * grid[1] + column_row[..., 0]


def importance(predicted: Tensor, truth: Tensor, threshold: Tensor) -> Tensor:
    """omega_m: the squared share of the threshold distance for points that are nearly right, else 1; eq. (3).

    Parameters
    ----------
    predicted, truth
        (B, K, 2), in pixels of the network's input.
    threshold
        (B,) delta_thres: a tenth of the target's larger side.
    """
    share: Tensor = torch.linalg.vector_norm(predicted - truth, dim=2) / threshold[:, None]
    return share.square().clamp_max(1.0)


def target_distributions(points: Tensor, grid: Grid, spread: float) -> Tensor:
    """What each row should look like, (..., 2) in pixels of the network's input -> (..., N').

    One at the nearest cell, as in eq. (2); with a ``spread``, a Gaussian of that many cells instead, which
    tells a near miss from a far one.
    """
    if spread == 0:
        return F.one_hot(nearest_cells(points, grid), grid[0] * grid[1]).to(points.dtype)
    x, y = (points / BASE_STRIDE).unbind(-1)
    rows, columns = (torch.arange(side, device=points.device) for side in grid)
    distance = (y[..., None, None] - rows[:, None]).square() + (x[..., None, None] - columns).square()
    return (distance / (-2 * spread**2)).flatten(-2).softmax(-1)


def strong_loss(rows: Tensor, targets: Tensor, valid: Tensor, omega: Tensor) -> StrongLoss:
    """Weighted cross-entropy, averaged over each pair's points, then over pairs; eq. (2).

    Parameters
    ----------
    rows
        (B, K, N') the correlation's rows at the source points, *before* the mutual filter as in the
        published code.
    targets
        (B, K, N') of :func:`target_distributions`.
    valid
        (B, K) which of the padded points are there.
    omega
        (B, K) their importance.
    """
    centred = rows - rows.mean(2, keepdim=True)
    deviation = centred.detach().std(2, keepdim=True)  # no gradient through it, as published
    scores = centred / torch.where(deviation == 0, 1.0, deviation)
    logarithms = scores.log_softmax(2)
    cross_entropy = torch.where(valid, -(targets * logarithms).sum(2), 0.0)
    per_pair = (omega * cross_entropy).sum(1) / valid.sum(1)
    return StrongLoss(per_pair.mean(), cross_entropy.detach(), omega)
