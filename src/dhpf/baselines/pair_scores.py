"""PCK of many sets of layers on a list of pairs.

C candidates  N cells of the grid  K points of a pair
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from ..data.pairs import Pair
from ..evaluate.metrics import pair_pck
from ..evaluate.predictions import PairPrediction, Predictions
from ..evaluate.protocol import Protocol
from ..model.backbone import BASE_STRIDE
from ..model.hough import hough_space
from ..model.kernels import Integers
from ..model.transfer import REACH, Neighbourhoods, cell_offsets
from ..progress import shown
from .beam_search import Extension
from .block_file import BlockFile
from .candidates import LayerProducts

Floats = NDArray[np.float64]
DIGITS = 9  # of a PCK; the same values, added up in another order, must count as the same


class PairScores:
    """Scores candidates on pairs that have points.

    Parameters
    ----------
    blocks
        The feature blocks of all images of the pairs.
    pool, workers
        Of :func:`dhpf.evaluate.pipeline.worker_threads`, and how many they are. A candidate is one thread's,
        so their number changes no result.
    """

    def __init__(
        self,
        pairs: Sequence[Pair],
        blocks: BlockFile,
        protocol: Protocol,
        alpha: float,
        pool: ThreadPoolExecutor,
        workers: int,
    ) -> None:
        self.pairs, self.blocks, self.protocol, self.alpha = pairs, blocks, protocol, alpha
        self._pool, self._workers = pool, workers
        self._products = LayerProducts(len(blocks), blocks.grid)
        self._truth = _unanswered(pairs)

    def __call__(self, candidates: Sequence[Extension]) -> list[float]:
        """PCK of each candidate, in percent."""
        offsets = self._truth.point_offsets
        predicted = np.empty((len(candidates), offsets[-1], 2))
        for index, pair in enumerate(shown(self.pairs, f"{len(candidates)} candidates", len(self.pairs))):
            predicted[:, offsets[index] : offsets[index + 1]] = self._transfer(pair, candidates)
        return [self._pck(points) for points in predicted]

    def _transfer(self, pair: Pair, candidates: Sequence[Extension]) -> Floats:
        """Where each candidate carries the pair's points: (C, K, 2), x then y, in pixels of the target."""
        size = np.array(self.blocks.size[::-1])  # width, height of the network's input
        points = pair.source.points.clip(0, pair.source.size) * (size / pair.source.size)
        wanted = cells_around(points, self.blocks.grid)
        source, target = self.blocks.blocks(pair.source), self.blocks.blocks(pair.target)
        self._products.fill(source, target, self._pool)
        space = hough_space(self.blocks.size, self.blocks.size, torch.float32, torch.device("cpu"))
        shares = np.array_split(np.arange(len(candidates)), self._workers)
        found = self._pool.map(
            lambda share: self._products.best_targets([candidates[c] for c in share], space, wanted),
            [share for share in shares if len(share)],
        )
        moved = []
        for best in np.concatenate(list(found)):
            cells = np.zeros(self.blocks.grid[0] * self.blocks.grid[1], np.int64)
            cells[wanted] = best
            offsets = Neighbourhoods(cell_offsets(cells, self.blocks.grid, self.blocks.grid[1]))
            moved.append(points + offsets.mean(*points.T))
        in_target: Floats = np.stack(moved) * (np.array(pair.target.size) / size)
        return in_target

    def _pck(self, predicted: Floats) -> float:
        predictions = replace(self._truth, predicted_points=predicted)
        values = pair_pck(predictions, self.protocol, [self.alpha])[:, 0]
        weights = np.diff(predictions.point_offsets) if self.protocol.average == "point" else None
        return round(float(np.average(values, weights=weights)), DIGITS)


def cells_around(points: Floats, grid: tuple[int, int]) -> Integers:
    """The cells over which the transfer of some points averages.

    Parameters
    ----------
    points
        (K, 2), x then y, in pixels of the network's input.
    """
    columns, rows = (
        np.abs(BASE_STRIDE * np.arange(cells) - along[:, None]) <= REACH  # (K, cells)
        for along, cells in zip(points.T, grid[::-1], strict=True)
    )
    return np.flatnonzero((rows[:, :, None] & columns[:, None, :]).any(axis=0))


def _unanswered(pairs: Sequence[Pair]) -> Predictions:
    """The pairs with their truths, and no predictions yet."""
    return Predictions.of_pairs(
        [
            PairPrediction(
                pair_id=pair.id,
                category=pair.category,
                source_image=pair.source.path.name,
                target_image=pair.target.path.name,
                source_size=pair.source.size,
                target_size=pair.target.size,
                source_points=pair.source.points,
                predicted_points=np.full_like(pair.source.points, np.nan),
                target_points=pair.target.points,
                target_box=pair.target.box,
            )
            for pair in pairs
        ],
        dataset="",
        split="",
        model="",
        commit="",
    )
