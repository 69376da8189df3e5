"""Sets of layers matched on one pair of images, each layer correlated once for all of them.

L layers  C candidates  H, W grid, the same for both images  N = H*W  K source cells that are wanted
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..model.correlation import FactoredCorrelation, Grid, correlate
from ..model.hough import HoughSpace
from ..model.kernels import Integers
from ..model.mutual import TINY
from . import candidate_kernels as kernels
from .beam_search import Extension, Layers


class LayerProducts:
    """The inner products of two images' features, layer by layer.

    They take 0.9 GB for ResNet-50 at 240 x 240, so the memory is kept for the next pair.
    """

    def __init__(self, layers: int, grid: Grid) -> None:
        cells = grid[0] * grid[1]
        self.grid = grid
        self.values = np.empty((layers, cells, cells), np.float32)
        self.squares = np.empty((2, layers, cells), np.float32)  # squared lengths of both images' features
        self.epsilon = 0.0  # of the last correlation; the same for all

    def fill(self, blocks_a: Sequence[Tensor], blocks_b: Sequence[Tensor], pool: ThreadPoolExecutor) -> None:
        """Correlate each layer of a pair; blocks are (C, h, w)."""

        def fill_layer(layer: int) -> None:
            correlation = correlate([blocks_a[layer]], [blocks_b[layer]], self.grid, self.grid)
            _multiply_out(correlation, torch.from_numpy(self.values[layer]))
            self.squares[0, layer] = correlation.norm_a.square().numpy()
            self.squares[1, layer] = correlation.norm_b.square().numpy()
            self.epsilon = correlation.epsilon

        list(pool.map(fill_layer, range(len(self.values))))

    def best_targets(self, candidates: Sequence[Extension], space: HoughSpace, wanted: Integers) -> Integers:
        """The best target (C, K) of the ``wanted`` source cells (K,) for each candidate.

        Votes and column maxima need all source cells; what follows does not.
        """
        members = sorted({candidate.member for candidate in candidates})
        chosen = _as_rows([candidate.layers for candidate in candidates], len(self.values))
        norm_a, norm_b = np.sqrt(chosen.astype(np.float32) @ self.squares)
        sets = kernels.Candidates(
            products=self.values,
            members=_as_rows(members, len(self.values)),
            member_of=np.array([members.index(candidate.member) for candidate in candidates]),
            added=np.array([candidate.added for candidate in candidates]),
            norm_a=norm_a,
            norm_b=norm_b,
            epsilon=self.epsilon,
            width=self.grid[1],
            width_b=self.grid[1],
        )
        tables = torch.zeros(len(candidates), len(space.vertical), len(space.horizontal))
        kernels.sum_by_offset(sets, tables.numpy())
        votes = torch.stack([space.votes(table) for table in tables]).numpy()
        maxima = np.zeros_like(norm_b)
        kernels.column_maxima(sets, votes, maxima)
        best = np.empty((len(candidates), len(wanted)), np.int64)
        kernels.best_targets(sets, votes, maxima, TINY, wanted, best)
        return best


def _multiply_out(correlation: FactoredCorrelation, out: Tensor) -> None:
    """The inner products of a single layer, resized to the grid on both sides: (N, N)."""
    if not correlation.coarse:
        correlation.base_products(slice(None), out)
        return
    height, width = correlation.grid_a
    slab = correlation.slab(0, height)  # resized on the target's side
    (rows, columns), y, x = slab.grids[0], slab.vertical[0], slab.horizontal[0]
    lines = y.matrix(rows) @ slab.values.view(rows, -1)  # (H, columns * N)
    torch.matmul(x.matrix(columns), lines.view(height, columns, -1), out=out.view(height, width, -1))


def _as_rows(sets: Sequence[Layers], count: int) -> NDArray[np.bool_]:
    """Which layers are in each set: (sets, L)."""
    rows = np.zeros((len(sets), count), np.bool_)
    for row, layers in zip(rows, sets, strict=True):
        row[list(layers)] = True
    return rows
