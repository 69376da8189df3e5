"""Many sets of layers matched at once, as compiled CPU loops.

A candidate is a member of the beam and one more layer. Its inner products are sums over its layers. So, row
by row of the matrix: add up each member once, add the further layer of each candidate, and go on as for a
single match. A row of all layers fits the processor's cache, and of a candidate's matrix nothing is stored.

L layers  M members  C candidates  H, W source grid  H', W' target grid  N = H*W  N' = H'*W'
D = (H + H' - 1, W + W' - 1) offsets
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..model.kernels import Floats, Integers, compiled


class Candidates(NamedTuple):
    """Sets of layers, and one pair of images."""

    products: Floats  # (L, N, N') inner products of each layer's features, resized to the grid
    members: NDArray[np.bool_]  # (M, L) which layers are in each member of the beam
    member_of: Integers  # (C,) the member that a candidate extends
    added: Integers  # (C,) the layer that it adds
    norm_a: Floats  # (C, N) lengths of the hyperpixels
    norm_b: Floats  # (C, N')
    epsilon: float  # added to the product of norms
    width: int  # W
    width_b: int  # W'


@compiled
def sum_by_offset(candidates: Candidates, tables: Floats) -> None:
    """Add every match's ReLU(cosine)^2 to its offset in the candidate's table (D); ``tables`` begin at 0."""
    cells, cells_b = candidates.products.shape[1:]
    width, width_b = candidates.width, candidates.width_b
    totals, line = np.empty((len(candidates.members), cells_b), np.float32), np.empty(cells_b, np.float32)
    for cell in range(cells):
        _add_up_members(candidates, cell, totals)
        first, shift = cells // width - 1 - cell // width, width - 1 - cell % width
        for c in range(len(candidates.added)):
            _square_cosines(candidates, c, cell, totals, line)
            for ty in range(cells_b // width_b):
                sums = tables[c, first + ty, shift : shift + width_b]
                part = line[ty * width_b : (ty + 1) * width_b]
                for tx in range(width_b):
                    sums[tx] += part[tx]


@compiled
def column_maxima(candidates: Candidates, votes: Floats, maxima: Floats) -> None:
    """The highest confidence of each target cell, where confidence is ReLU(cosine)^2 times votes (C, D).

    ``maxima`` (C, N') begin at 0.
    """
    cells, cells_b = candidates.products.shape[1:]
    totals, line = np.empty((len(candidates.members), cells_b), np.float32), np.empty(cells_b, np.float32)
    for cell in range(cells):
        _add_up_members(candidates, cell, totals)
        for c in range(len(candidates.added)):
            _square_cosines(candidates, c, cell, totals, line)
            _multiply_votes(candidates, votes[c], cell, line)
            highest = maxima[c]
            for target in range(cells_b):
                highest[target] = max(highest[target], line[target])


@compiled
def best_targets(
    candidates: Candidates, votes: Floats, maxima: Floats, tiny: float, wanted: Integers, best: Integers
) -> None:
    """The best target (C, K) of the ``wanted`` source cells (K,), after the soft mutual filter."""
    cells_b = candidates.products.shape[2]
    totals, line = np.empty((len(candidates.members), cells_b), np.float32), np.empty(cells_b, np.float32)
    floor = np.float32(tiny)
    for k in range(len(wanted)):
        _add_up_members(candidates, wanted[k], totals)
        for c in range(len(candidates.added)):
            _square_cosines(candidates, c, wanted[k], totals, line)
            _multiply_votes(candidates, votes[c], wanted[k], line)
            of_row = max(line.max(), floor)
            top = np.float32(-1)
            for target in range(cells_b):
                confidence = line[target]
                share = (confidence / of_row) * (confidence / max(maxima[c, target], floor))
                if confidence * share > top:
                    top = confidence * share
                    best[c, k] = target


@compiled
def _add_up_members(candidates: Candidates, cell: int, totals: Floats) -> None:
    """Inner products (M, N') of one source cell."""
    totals[:] = 0
    for member in range(len(totals)):
        for layer in range(len(candidates.products)):
            if candidates.members[member, layer]:
                total, row = totals[member], candidates.products[layer, cell]
                for target in range(len(row)):
                    total[target] += row[target]


@compiled
def _square_cosines(candidates: Candidates, c: int, cell: int, totals: Floats, line: Floats) -> None:
    """ReLU(cosine)^2 (N',) of one source cell for candidate ``c``."""
    total, row = totals[candidates.member_of[c]], candidates.products[candidates.added[c], cell]
    length, lengths, epsilon = (
        candidates.norm_a[c, cell],
        candidates.norm_b[c],
        np.float32(candidates.epsilon),
    )
    for target in range(len(line)):
        cosine = max(total[target] + row[target], np.float32(0)) / (length * lengths[target] + epsilon)
        line[target] = cosine * cosine


@compiled
def _multiply_votes(candidates: Candidates, votes: Floats, cell: int, line: Floats) -> None:
    """Multiply the matches of one source cell by the votes (D) for their offsets."""
    width, width_b = candidates.width, candidates.width_b
    first, shift = candidates.products.shape[1] // width - 1 - cell // width, width - 1 - cell % width
    for ty in range(len(line) // width_b):
        vote = votes[first + ty, shift : shift + width_b]
        part = line[ty * width_b : (ty + 1) * width_b]
        for tx in range(width_b):
            part[tx] *= vote[tx]
