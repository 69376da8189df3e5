"""Section 3.3, put together: correlation -> Hough votes -> mutual filter -> best target of every source cell.

Voting needs all of p(m_a) before any vote is known, and the mutual filter needs all votes before any
column maximum is known: three tiled passes over the matrix. Each round of re-voting (``revoting.py``) has
four more. The matrix is kept between passes where it fits the memory bound, otherwise its tiles are computed
anew in each pass. Passes are compiled on the CPU (``fast/passes.py``); here they are written in torch.

H, W source grid  H', W' target grid  N = H*W  N' = H'*W'  k source grid rows of one tile
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..fast.memory import scratch_matrix
from .correlation import Correlation
from .hough import BINNINGS, Votes, Windows, hough_space, offset_windows
from .mutual import TINY, mutual_filter
from .revoting import EXTRAPOLATION, Direction, affine_space, affine_windows, fit_affine

MATRIX_BYTES = 192 * 2**20  # the largest correlation matrix that is kept; beyond, tiles are recomputed
TILE_BYTES = 64 * 2**20  # of one tile; switching between torch's threads and ours costs, so: few


@dataclass(frozen=True)
class Voting:
    """How matches vote."""

    hough: str = BINNINGS[0]  # one of BINNINGS; "none": every match has the same score
    revote: bool = False  # affine-conditioned re-voting


class CellMatches(NamedTuple):
    """The dense result on the source grid."""

    best: Tensor  # (N,) number of the best target cell
    confidence: Tensor  # (N,) in [0, 1]: filtered confidence C of that match / the highest vote
    votes: Votes
    column_maxima: Tensor  # (N',) of p(m_a) times votes


class Tile(NamedTuple):
    """k whole source grid rows of the matrix, from ``first`` to before ``stop``."""

    first: int
    stop: int
    columns: int  # W

    @property
    def rows(self) -> slice:
        """The matrix rows of the tile."""
        return slice(self.first * self.columns, self.stop * self.columns)


class Passes:
    """What each pass does with one tile, in torch operations: any device, any floating type."""

    def __init__(self, correlation: Correlation) -> None:
        self.correlation = correlation
        self.device = correlation.norm_a.device

    def appearance(self, tile: Tile, out: Tensor, table: Tensor) -> None:
        """Write p(m_a) of the tile to ``out`` (k*W, N'), and add it to a table by offset."""
        out.copy_(self.correlation.rows(self._cells(tile)))
        windows = offset_windows(self.correlation.grid_a, self.correlation.grid_b, self.device)
        windows.add(table, self._cells(tile), out)

    def sums(self, tile: Tile, values: Tensor, windows: Windows, table: Tensor) -> None:
        """Add p(m_a) of the tile to a table by other offsets."""
        windows.add(table, self._cells(tile), values)

    def maxima(self, tile: Tile, values: Tensor, votes: Votes) -> tuple[Tensor, Tensor]:
        """Maxima of p(m_a) times votes: of the tile's rows, as ``best`` takes them, and of columns (N',)."""
        confidence = values * votes.of_cells(self._cells(tile))
        return confidence.amax(1), confidence.amax(0)

    def best(self, tile: Tile, values: Tensor, votes: Votes, maxima: Tensor, columns: Tensor) -> Direction:
        """Best target (k*W,) after the mutual filter, and its filtered confidence."""
        value, index = self._filtered(tile, values, votes, maxima, columns).max(1)
        return Direction(index, value)

    def best_of_columns(
        self, tile: Tile, values: Tensor, votes: Votes, maxima: Tensor, columns: Tensor
    ) -> Direction:
        """Best source in the tile (N',) after the mutual filter, and its filtered confidence."""
        value, index = self._filtered(tile, values, votes, maxima, columns).max(0)
        return Direction(index + tile.rows.start, value)

    def _filtered(self, tile: Tile, values: Tensor, votes: Votes, maxima: Tensor, columns: Tensor) -> Tensor:
        return mutual_filter(values * votes.of_cells(self._cells(tile)), maxima, columns)

    def _cells(self, tile: Tile) -> Tensor:
        return torch.arange(tile.rows.start, tile.rows.stop, device=self.device)


def passes_of(correlation: Correlation, compiled: bool | None = None) -> Passes:
    """The passes over a correlation; by default compiled where the data is float32 on the CPU."""
    norm = correlation.norm_a
    if compiled is None:
        compiled = norm.device.type == "cpu" and norm.dtype == torch.float32
    if not compiled:
        return Passes(correlation)
    from ..fast.passes import CompiledPasses

    return CompiledPasses(correlation)


@torch.no_grad()
def match_cells(
    correlation: Correlation,
    voting: Voting = Voting(),  # frozen
    matrix_bytes: int = MATRIX_BYTES,
    compiled: bool | None = None,
) -> CellMatches:
    """Vote, filter and take the best target of every source cell.

    Parameters
    ----------
    matrix_bytes
        Bound on the memory for the correlation matrix.
    compiled
        Use the compiled CPU passes; by default where the data is float32 on the CPU.
    """
    return _Tiled(correlation.detach(), voting, matrix_bytes, passes_of(correlation, compiled)).run()


class _Tiled:
    """The matrix in tiles, and what several passes find."""

    def __init__(self, correlation: Correlation, voting: Voting, matrix_bytes: int, passes: Passes) -> None:
        self.correlation, self.voting, self.passes = correlation, voting, passes
        (height, width), cells_b = correlation.grid_a.shape, correlation.grid_b.cells
        row_bytes = width * cells_b * correlation.norm_a.element_size()
        step = max(1, TILE_BYTES // row_bytes)
        self.tiles = [Tile(y, min(y + step, height), width) for y in range(0, height, step)]
        self.keep = height * row_bytes <= matrix_bytes
        rows = (height if self.keep else step) * width
        self.matrix = scratch_matrix(rows, cells_b, correlation.norm_a, TILE_BYTES)

    def run(self) -> CellMatches:
        """All passes."""
        votes = self.first_votes()
        if self.voting.revote:
            grids = self.correlation.grid_a, self.correlation.grid_b
            space = affine_space(*grids, self.matrix.dtype, self.matrix.device)
            for extrapolation in EXTRAPOLATION:
                locations = fit_affine(*self._both_directions(votes), *grids, extrapolation)
                windows = affine_windows(locations, grids[1])
                table = self.matrix.new_zeros(len(space.vertical), len(space.horizontal))
                for tile in self.tiles:
                    self.passes.sums(tile, self._values(tile), windows, table)
                votes = Votes(space.votes(table), windows)
        row_maxima, columns = self.maxima(votes)
        found = self._each(self.passes.best, votes, row_maxima, columns)
        best, confidence = (torch.cat(parts) for parts in zip(*found, strict=True))
        highest = votes.table.max().clamp_min(TINY)
        return CellMatches(best, (confidence / highest).clamp_max(1), votes, columns)  # but for rounding

    def first_votes(self) -> Votes:
        """For offsets from each cell's own location."""
        grids, table = (self.correlation.grid_a, self.correlation.grid_b), self._offset_table()
        for tile in self.tiles:
            self.passes.appearance(tile, self._place(tile), table)
        if self.voting.hough == "none":
            table = torch.ones_like(table)
        else:
            kind = self.matrix.dtype, self.matrix.device
            table = hough_space(*grids, *kind, self.voting.hough).votes(table)
        return Votes(table, offset_windows(*grids, self.matrix.device))

    def _offset_table(self) -> Tensor:
        grids = self.correlation.grid_a.shape, self.correlation.grid_b.shape
        return self.matrix.new_zeros([a + b - 1 for a, b in zip(*grids, strict=True)])

    def _place(self, tile: Tile) -> Tensor:
        """Where the tile's values go: their own rows, or the start of the one shared buffer."""
        return self.matrix[tile.rows if self.keep else slice(tile.rows.stop - tile.rows.start)]

    def _values(self, tile: Tile) -> Tensor:
        if not self.keep:
            self.passes.appearance(tile, self._place(tile), self._offset_table())
        return self._place(tile)

    def maxima(self, votes: Votes) -> tuple[list[Tensor], Tensor]:
        """Of p(m_a) times votes: of the rows of each tile, and of all columns."""
        row_maxima, columns = [], self.matrix.new_zeros(self.correlation.grid_b.cells)
        for tile in self.tiles:
            rows, own = self.passes.maxima(tile, self._values(tile), votes)
            row_maxima.append(rows)
            columns = torch.maximum(columns, own)
        return row_maxima, columns

    def _each(
        self, best: Callable[..., Direction], votes: Votes, row_maxima: list[Tensor], columns: Tensor
    ) -> list[Direction]:
        tiles = zip(self.tiles, row_maxima, strict=True)
        return [best(tile, self._values(tile), votes, rows, columns) for tile, rows in tiles]

    def _both_directions(self, votes: Votes) -> tuple[Direction, Direction]:
        """The best matches of all source cells and of all target cells, after the mutual filter."""
        row_maxima, columns = self.maxima(votes)
        forward = self._each(self.passes.best, votes, row_maxima, columns)
        backward = self._each(self.passes.best_of_columns, votes, row_maxima, columns)
        best, confidence = (torch.stack(parts) for parts in zip(*backward, strict=True))  # (tiles, N')
        highest, tile = confidence.max(0)
        back = Direction(best.gather(0, tile[None])[0], highest)
        return Direction(*(torch.cat(parts) for parts in zip(*forward, strict=True))), back


class Strongest(NamedTuple):
    """Where p(m_a) times votes is largest, before the mutual filter: gradients of maxima pass through it."""

    votes: Votes
    of_rows: Tensor  # (N,) target cell
    of_columns: Tensor  # (N',) source cell


@torch.no_grad()
def strongest_matches(correlation: Correlation, voting: Voting) -> Strongest:
    """Vote, then find the largest confidence of every row and column."""
    correlation = correlation.detach()
    passes = passes_of(correlation)
    tiled = _Tiled(correlation, voting, sys.maxsize, passes)
    votes = tiled.first_votes()
    if type(passes) is Passes:
        every = torch.arange(len(tiled.matrix), device=tiled.matrix.device)
        confidence = tiled.matrix * votes.of_cells(every)
        return Strongest(votes, confidence.argmax(1), confidence.argmax(0))
    from ..fast.maxima import find_maxima

    row_maxima, columns = tiled.maxima(votes)
    return Strongest(votes, *find_maxima(correlation, tiled.matrix, votes, torch.cat(row_maxima), columns))
