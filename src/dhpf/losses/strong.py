"""Section 3.4, strong supervision: cross-entropy of the correlation's rows at annotated points, eq. (2), (3).

K points of a pair  N' target cells
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from ..grid import Grid


def importance(predicted: Tensor, truth: Tensor, threshold: float) -> Tensor:
    """omega_m, (K,): the squared ratio of a point's error to the threshold, at most 1; eq. (3).

    Parameters
    ----------
    predicted, truth
        (K, 2), in pixels of the network's input.
    threshold
        delta_thres: a tenth of the target's larger side.
    """
    error: Tensor = torch.linalg.vector_norm(predicted - truth, dim=1)
    return (error / threshold).square().clamp_max(1.0)


def target_distributions(points: Tensor, grid: Grid, sigma: float = 0.0) -> Tensor:
    """What each row should look like, (K, 2) in pixels of the network's input -> (K, N').

    One at the nearest cell, as in eq. (2); with a ``sigma``, a Gaussian of that many cells instead, which
    tells a near miss from a far one.
    """
    if sigma == 0:
        return F.one_hot(grid.nearest(points), grid.cells).to(points.dtype)
    x, y = grid.coordinates(points).unbind(-1)
    rows, columns = (torch.arange(side, device=points.device) for side in grid.shape)
    distance = (y[:, None, None] - rows[:, None]).square() + (x[:, None, None] - columns).square()
    return (distance / (-2 * sigma**2)).flatten(1).softmax(1)


def strong_loss(rows: Tensor, targets: Tensor, omega: Tensor) -> Tensor:
    """Weighted cross-entropy, averaged over a pair's points; eq. (2).

    Parameters
    ----------
    rows
        (K, N') the correlation's rows at the source points, *before* the mutual filter as in the published
        code.
    targets
        (K, N') of :func:`target_distributions`.
    omega
        (K,) of :func:`importance`.
    """
    centred = rows - rows.mean(1, keepdim=True)
    deviation = centred.detach().std(1, keepdim=True)  # no gradient through it, as published
    scores = centred / torch.where(deviation == 0, 1.0, deviation)
    cross_entropy = -(targets * scores.log_softmax(1)).sum(1)
    return (omega * cross_entropy).mean()
