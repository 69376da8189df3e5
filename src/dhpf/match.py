"""Match: what is known of a pair after matching. All points are pixels of the original photos, x then y.

H, W source photo  h, w source grid  K points
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from .errors import InputError
from .model.correlation import Grid
from .model.evidence import Evidence
from .model.transfer import Neighbourhoods, cell_offsets, covering_cells
from .points import Points, check_points

STRIP = 2**20  # pixels that are computed at a time, so that a large photo needs little more than its result


@dataclass(frozen=True, eq=False)
class Match:
    """Correspondences from a source photo to a target photo."""

    source: Image.Image
    target: Image.Image
    best: NDArray[np.int64] = field(repr=False)  # (h*w,) best target cell of each source cell
    cell_confidence: NDArray[np.float32] = field(repr=False)  # (h*w,)
    grids: tuple[Grid, Grid]  # rows and columns of the source's and the target's grid
    size: tuple[int, int]  # width, height of the network's input
    model: str
    layers: tuple[int, ...]  # the layers that were used
    layer_probability: NDArray[np.float32] | None = None  # (L,) how sure each gate was to be on, with gates
    # (h, w, 2) what a closer look adds to the cells' displacements, in pixels of the network's input
    closer: NDArray[np.float64] | None = field(default=None, repr=False)
    evidence: Evidence | None = field(default=None, repr=False)  # what :meth:`scores` needs; not pickled

    def transfer(self, points: ArrayLike) -> Points:
        """Move points of the source photo to the target photo.

        Parameters
        ----------
        points
            (K, 2), x then y, in pixels of the source photo.

        Returns
        -------
        (K, 2), x then y, in pixels of the target photo. A point near an edge may land a little outside,
        by at most 5 pixels of the network's input.
        """
        x, y = self._in_input(check_points(points, self.source.size)).T
        moved = np.stack([x, y], axis=1) + self._offsets.mean(x, y)
        return moved * (np.array(self.target.size) / self.size)

    def confidence_at(self, points: ArrayLike) -> NDArray[np.float64]:
        """Confidence of each transfer, (K,), in [0, 1]; ``points`` as for :meth:`transfer`."""
        x, y = self._in_input(check_points(points, self.source.size)).T
        return self._confidences.mean(x, y)

    def scores(self, point: ArrayLike) -> NDArray[np.float32]:
        """How well every cell of the target's grid fits one point of the source, in [0, 1].

        It is the filtered confidence (after Hough voting and the mutual filter) of the cells that
        :meth:`transfer` averages over, averaged, on the scale of :attr:`confidence`. The cell in row r and
        column c lies at (4 c, 4 r) of the network's input. It is about the whole photos: where the model
        also looks closer, a point may land beside the highest score.

        Parameters
        ----------
        point
            (2,), x then y, in pixels of the source photo.

        Returns
        -------
        (rows, columns) of the target's grid.
        """
        one: list[Any] = [point]
        given = self._in_input(check_points(one, self.source.size))
        if len(given) != 1:
            raise InputError("scores are those of one source point: give its x and y")
        if self.evidence is None:
            raise InputError(
                "this match holds no evidence for scores: it was saved and read again, or made without; "
                "match the photos again"
            )
        ((x, y),) = given
        rows, columns = (
            slice(*map(int, covering_cells(place, cells)))
            for place, cells in zip((y, x), self.grids[0], strict=True)
        )
        scores: NDArray[np.float32] = self.evidence.scores(rows, columns).float().cpu().numpy()
        return scores

    @cached_property
    def flow(self) -> NDArray[np.float32]:
        """Dense displacements (H, W, 2): the pixel (x, y) of the source lies at (x, y) + flow[y, x]."""
        scale = np.array(self.target.size) / self.size
        flow = np.empty((self.source.height, self.source.width, 2), np.float32)
        for rows, x, y in self._strips():
            moved = self._offsets.mean(x, y)
            moved[..., 0] += x
            moved[..., 1] += y
            moved *= scale
            moved[..., 0] -= np.arange(self.source.width)
            moved[..., 1] -= np.arange(rows.start, rows.stop)[:, None]
            flow[rows] = moved
        return flow

    @cached_property
    def confidence(self) -> NDArray[np.float32]:
        """Confidence of every source pixel's match, (H, W), in [0, 1].

        It is the paper's filtered correlation of the best match divided by the highest Hough vote: high where
        the features agree, the offset is one that many matches share, and both photos choose each other.
        """
        confidence = np.empty((self.source.height, self.source.width), np.float32)
        for rows, x, y in self._strips():
            confidence[rows] = self._confidences.mean(x, y)
        return confidence

    def keypoints(self, count: int = 12) -> Points:
        """The most confident source points, (at most ``count``, 2), spread over the photo."""
        from .viz.spread import spread_points

        return spread_points(self, count)

    def warp(self, points: ArrayLike | None = None) -> Image.Image:
        """The source photo warped onto the target by thin-plate splines, in the target's size.

        Parameters
        ----------
        points
            The source points that steer the warp, (K, 2); by default the most confident ones.
        """
        from .viz.warp import STEERING, warp_to_target

        return warp_to_target(self, self._given(points, STEERING))

    def draw(
        self,
        points: ArrayLike | None = None,
        style: str = "lines",
        *,
        truth: ArrayLike | None = None,
        threshold: float | None = None,
    ) -> Image.Image:
        """A drawing of the match, about 480 pixels high; it can be read on light and dark photos, and with
        any kind of colour vision.

        Parameters
        ----------
        points
            Source points, (K, 2), x then y, in pixels of the source photo; what for depends on the style.
        style
            "lines": both photos, ``points`` (by default the most confident) joined to their matches by lines
            coloured by confidence.
            "truth": the matches of ``points`` beside their true places, each in a circle of allowed error.
            "warp": the source warped onto the target by thin-plate splines that ``points`` steer (by default
            the most confident), the target, and half of each.
            "flow": where every source pixel moves, as colours of a wheel that is drawn beside it with its
            radius in pixels; ``points`` are marked, if given.
            "heat": the :meth:`scores` of one point over the target; ``points`` is (1, 2).
        truth
            For "truth": where ``points`` belong, (K, 2), x then y, in pixels of the target photo.
        threshold
            For "truth": the allowed error in pixels of the target; by default a tenth of its longer side.
        """
        from .viz.styles import draw_style

        given = None if points is None else check_points(points, self.source.size)
        return draw_style(self, given, style, truth, threshold)

    def to_dict(self, points: ArrayLike | None = None) -> dict[str, Any]:
        """What ``--json`` writes: points, their matches and confidences, layers, model, image sizes."""
        given = self._given(points)
        sure = self.layer_probability
        return {
            "model": self.model,
            "source_size": list(self.source.size),
            "target_size": list(self.target.size),
            "input_size": list(self.size),
            "source_points": np.round(given, 3).tolist(),
            "target_points": np.round(self.transfer(given), 3).tolist(),
            "confidence": np.round(self.confidence_at(given), 6).tolist(),
            "layers": list(self.layers),
            "layer_probability": None if sure is None else np.round(sure.astype(float), 6).tolist(),
        }

    def __getstate__(self) -> dict[str, Any]:
        """A match that is saved or copied leaves its evidence, far the largest part, behind."""
        return {**self.__dict__, "evidence": None}

    @cached_property
    def _offsets(self) -> Neighbourhoods:
        offsets = cell_offsets(self.best, self.grids[0], self.grids[1][1])
        return Neighbourhoods(offsets if self.closer is None else offsets + self.closer)

    @cached_property
    def _confidences(self) -> Neighbourhoods:
        return Neighbourhoods(self.cell_confidence.reshape(self.grids[0]).astype(np.float64))

    def _given(self, points: ArrayLike | None, count: int = 12) -> Points:
        """The points that were asked for, checked; or confident ones."""
        return self.keypoints(count) if points is None else check_points(points, self.source.size)

    def _in_input(self, points: Points) -> Points:
        """Source pixels to pixels of the network's input."""
        return points * (np.array(self.size) / self.source.size)

    def _strips(self) -> Iterator[tuple[slice, NDArray[Any], NDArray[Any]]]:
        """Rows of the source, and the positions of their pixels in the input: x (1, W) and y (rows, 1)."""
        width, height = self.source.size
        x = np.arange(width) * (self.size[0] / width)
        y = np.arange(height) * (self.size[1] / height)
        step = max(1, STRIP // width)
        for top in range(0, height, step):
            rows = slice(top, min(top + step, height))
            yield rows, x[None, :], y[rows, None]
