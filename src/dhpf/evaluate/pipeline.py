"""One pair of a data set -> its predicted points, in worker threads.

Every image and every pair is computed by one thread, and several of them side by side. The last bits of a
matrix product depend on the number of threads that share it; this way no result does.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import ImageOps

from ..data.pairs import Pair, PairDataset, Photo
from ..errors import InputError
from ..feature_cache import FeatureCache
from ..images import read_image
from ..match import Match
from ..matcher import ImageFeatures, Matcher
from .predictions import PairPrediction
from .protocol import DIRECTIONS

Outcome: TypeAlias = "PairPrediction | str"  # of a pair: its prediction, or why there is none


@contextmanager
def worker_threads(count: int) -> Iterator[ThreadPoolExecutor]:
    """Threads of which each computes for itself: meanwhile, torch splits no operation among several."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    pool = ThreadPoolExecutor(count)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(before)


class Pipeline:
    """Predicts pairs of a data set; if ``polygons``, the outlines of their objects, not their keypoints."""

    def __init__(
        self, matcher: Matcher, dataset: PairDataset, *, polygons: bool, direction: str, cache_bytes: int
    ) -> None:
        self.matcher, self.dataset, self.polygons, self.direction = matcher, dataset, polygons, direction
        self.features = FeatureCache(self._compute, cache_bytes)

    def outcome(self, index: int) -> Outcome:
        """The prediction of one pair of the split, or why there is none; safe to call from many threads."""
        try:
            pair = self.dataset[index]
            return self._predict(pair if self.direction == DIRECTIONS[0] else pair.swap())
        except InputError as error:
            reason = str(error)
            return reason if reason.isprintable() else ascii(reason)[1:-1]

    def _compute(self, key: tuple[Path, bool]) -> ImageFeatures:
        path, mirrored = key
        image = read_image(path)
        return self.matcher.features(ImageOps.mirror(image) if mirrored else image, str(path))

    def _features(self, photo: Photo) -> ImageFeatures:
        return self.features.get((photo.path, photo.mirrored))

    def _predict(self, pair: Pair) -> PairPrediction:
        points = self._points(pair.source)
        if len(points) == 0:
            raise InputError("no common points")
        images = self._features(pair.source), self._features(pair.target)
        match = self.matcher.match(*images, scores=False)
        inside = points.clip(-0.5, np.array(pair.source.size) - 0.5)
        return PairPrediction(
            pair_id=pair.id,
            category=pair.category,
            source_image=self._name(pair.source),
            target_image=self._name(pair.target),
            source_size=pair.source.size,
            target_size=pair.target.size,
            source_points=points,
            predicted_points=match.transfer(inside),
            target_points=self._points(pair.target),
            target_box=pair.target.box,
            flags=pair.flags,
            layers=self._layers(match),
            gate_probabilities=match.layer_probability,
            confidences=match.confidence_at(inside),
        )

    def _layers(self, match: Match) -> NDArray[np.bool_] | None:
        """Which of all layers were used; None where the method does not choose."""
        if match.layers is None:
            return None
        layers = np.zeros(len(self.matcher.method.backbone.channels), np.bool_)
        layers[list(match.layers)] = True
        return layers

    def _points(self, photo: Photo) -> NDArray[np.float64]:
        return photo.polygon if self.polygons and photo.polygon is not None else photo.points

    def _name(self, photo: Photo) -> str:
        return photo.path.relative_to(self.dataset.root).as_posix()
