"""Match: what is known of a pair after matching. All points are pixels of the original photos, x then y.

H, W source photo  K points
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from PIL import Image
from scipy.ndimage import map_coordinates

from .errors import InputError
from .grid import Grid, Size, resize_points
from .model.readout import Flow
from .model.scores import Scores
from .points import Points, check_points

STRIP = 2**20  # pixels that are computed at a time, so that a large photo needs little more than its result


class Foreground(NamedTuple):
    """How likely each cell of an image shows an object."""

    probability: NDArray[np.float32]  # (rows, columns)
    grid: Grid

    def at(self, points: Points) -> NDArray[np.float64]:
        """Of points (K, 2) in pixels of the network's input, (K,)."""
        column, row = ((points - self.grid.offset) / self.grid.stride).T
        found: NDArray[np.float64] = map_coordinates(self.probability, [row, column], order=1, mode="nearest")
        return found


@dataclass(frozen=True, eq=False)
class Match:
    """Correspondences from a source photo to a target photo."""

    source: Image.Image
    target: Image.Image
    cells: Flow  # on the source's grid, in pixels of the network's input
    size: Size  # width, height of the network's input
    model: str
    layers: tuple[int, ...] | None = None  # that were chosen; None where the method does not choose
    layer_probability: NDArray[np.float32] | None = None  # (L,) how sure each gate was to be on, with gates
    match_scores: Scores | None = field(default=None, repr=False)  # for :meth:`scores`; not pickled
    foreground: tuple[Foreground, Foreground] | None = None  # of source and target, where it is known
    flipped: bool = False  # matched with the mirrored target, of which the model was surer

    def transfer(self, points: ArrayLike, min_confidence: float = 0.0) -> Points:
        """Move points of the source photo to the target photo.

        Parameters
        ----------
        points
            (K, 2), x then y, in pixels of the source photo; pixel centres lie at whole numbers.
        min_confidence
            Points that are less sure are not there: NaN.

        Returns
        -------
        (K, 2), x then y, in pixels of the target photo. A point near an edge may land a little outside.
        """
        landed = self.cells.transfer(self._in_input(points))
        if min_confidence > 0:
            landed[self.confidence_at(points) < min_confidence] = np.nan
        return resize_points(landed, self.size, self.target.size)

    def confidence_at(self, points: ArrayLike) -> NDArray[np.float64]:
        """Confidence of each transfer, (K,), in [0, 1]; ``points`` as for :meth:`transfer`."""
        return self.cells.confidence_at(*self._in_input(points).T)

    @property
    def target_grid(self) -> Grid:
        """The grid of :meth:`scores`."""
        return self._kept_scores().grid

    def scores(self, point: ArrayLike) -> NDArray[np.float32]:
        """How well every cell of the target's grid fits one point of the source, in [0, 1].

        It is the filtered confidence (after Hough voting and the mutual filter) of the cells that
        :meth:`transfer` averages over, averaged, on the scale of :attr:`confidence`; of models that match by
        probabilities, the probability; of nearest neighbours, the squared cosine. Where a cell lies says
        :attr:`target_grid`, in pixels of the network's input.

        Parameters
        ----------
        point
            (2,), x then y, in pixels of the source photo.

        Returns
        -------
        (rows, columns) of the target's grid.
        """
        one: list[Any] = [point]
        given = self._in_input(one)
        if len(given) != 1:
            raise InputError("scores are those of one source point: give its x and y")
        cells = torch.from_numpy(self.cells.cells_at(*given[0]))
        scores: NDArray[np.float32] = self._kept_scores().of_cells(cells).float().cpu().numpy()
        return scores

    def _kept_scores(self) -> Scores:
        if self.match_scores is None:
            raise InputError(
                f"this match holds no scores: {self.model} keeps none, or it was made with scores=False, or "
                "saved and read again; if the model keeps any, match the photos again"
            )
        return self.match_scores

    @cached_property
    def flow(self) -> NDArray[np.float32]:
        """Dense displacements (H, W, 2): the pixel (x, y) of the source lies at (x, y) + flow[y, x]."""
        flow = np.empty((self.source.height, self.source.width, 2), np.float32)
        for rows, pixels, inside in self._strips():
            landed = self.cells.transfer(inside)
            flow[rows] = resize_points(landed, self.size, self.target.size) - pixels
        return flow

    @cached_property
    def confidence(self) -> NDArray[np.float32]:
        """Confidence of every source pixel's match, (H, W), in [0, 1].

        It is the paper's filtered correlation of the best match divided by the highest Hough vote: high where
        the features agree, the offset is one that many matches share, and both photos choose each other.
        """
        confidence = np.empty((self.source.height, self.source.width), np.float32)
        for rows, _, inside in self._strips():
            confidence[rows] = self.cells.confidence_at(inside[..., 0], inside[..., 1])
        return confidence

    def on_objects(self, points: ArrayLike) -> NDArray[np.float64]:
        """How likely points of the source and their matches both lie on objects, (K,); 1 if nothing is known.

        Parameters
        ----------
        points
            (K, 2), x then y, in pixels of the source photo.
        """
        inside = self._in_input(points)
        if self.foreground is None:
            return np.ones(len(inside))
        here, there = self.foreground
        return np.minimum(here.at(inside), there.at(self.cells.transfer(inside)))

    def keypoints(self, count: int = 12) -> Points:
        """Confident source points on what both photos show, (at most ``count``, 2), spread over it.

        There are fewer where fewer qualify, and none where the photos show nothing alike.
        """
        from .viz.spread import spread_points

        if count < 1:
            raise InputError(f"{count} key points were asked for; wanted 1 or more")
        return spread_points(self, count)

    def warp(self, points: ArrayLike | None = None) -> Image.Image:
        """The source photo warped onto the target by thin-plate splines, in the target's size.

        Parameters
        ----------
        points
            The source points that steer the warp, (K, 2); by default the most confident ones.
        """
        from .viz.spread import steering_points
        from .viz.warp import STEERING, warp_to_target

        steering = steering_points(self, STEERING) if points is None else self._given(points)
        return warp_to_target(self, steering)

    def draw(
        self,
        points: ArrayLike | None = None,
        style: str = "lines",
        *,
        truth: ArrayLike | None = None,
        threshold: float | None = None,
        names: Sequence[str] | None = None,
        min_confidence: float = 0.0,
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
            "points": the target alone, with the matches as dots with numbers.
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
        names
            For "lines" and "points": what to call the points, instead of numbers.
        min_confidence
            For "lines" and "points": matches that are less sure are left out.
        """
        from .viz.styles import draw_style

        given = None if points is None else check_points(points, self.source.size)
        return draw_style(self, given, style, truth, threshold, names, min_confidence)

    def to_dict(self, points: ArrayLike | None = None, min_confidence: float = 0.0) -> dict[str, Any]:
        """What ``--json`` writes: points, their matches and confidences, layers, model, image sizes.

        Matches that are less sure than ``min_confidence`` are None. Layers are left out where the method has
        no choice of them, and so are their probabilities where it has no gates.
        """
        given = self._given(points)
        sure = self.layer_probability
        landed = np.round(self.transfer(given, min_confidence), 3)
        return {
            "model": self.model,
            "source_size": list(self.source.size),
            "target_size": list(self.target.size),
            "input_size": list(self.size),
            "flipped": self.flipped,
            "source_points": np.round(given, 3).tolist(),
            "target_points": [None if np.isnan(point).any() else point.tolist() for point in landed],
            "confidence": np.round(self.confidence_at(given), 6).tolist(),
            **({} if self.layers is None else {"layers": list(self.layers)}),
            **({} if sure is None else {"layer_probability": np.round(sure.astype(float), 6).tolist()}),
        }

    def __getstate__(self) -> dict[str, Any]:
        """A match that is saved or copied leaves its scores, far the largest part, behind."""
        return {**self.__dict__, "match_scores": None}

    def _given(self, points: ArrayLike | None) -> Points:
        """The points that were asked for, checked; or confident ones."""
        return self.keypoints() if points is None else check_points(points, self.source.size)

    def _in_input(self, points: ArrayLike) -> Points:
        """Source points, checked, in pixels of the network's input."""
        return resize_points(check_points(points, self.source.size), self.source.size, self.size)

    def _strips(self) -> Iterator[tuple[slice, Points, Points]]:
        """Rows of the source; their pixels, (rows, W, 2); where these lie in the network's input."""
        width, height = self.source.size
        step = max(1, STRIP // width)
        for top in range(0, height, step):
            rows = slice(top, min(top + step, height))
            y, x = np.mgrid[rows, :width].astype(np.float64)
            pixels = np.stack([x, y], axis=-1)
            yield rows, pixels, resize_points(pixels, self.source.size, self.size)
