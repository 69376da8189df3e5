"""One pair of a data set -> its predicted points, in worker threads.

Every image and every pair is computed by one thread, and several of them side by side. The last bits of a
matrix product depend on the number of threads that share it; this way no result does.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

import numpy as np
import torch
from numpy.typing import NDArray

from ..data.pairs import Pair, PairDataset, Photo
from ..errors import InputError
from ..match import Match
from ..matcher import ImageFeatures, Matcher
from .parts import Outcome
from .predictions import PairPrediction
from .protocol import DIRECTIONS


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


class FeatureCache:
    """The features of images: each computed once, however many threads ask for it.

    Beyond ``limit`` bytes, what was asked for longest ago is forgotten.
    """

    def __init__(self, compute: Callable[[Photo], ImageFeatures], limit: int) -> None:
        self._compute, self._limit, self._lock = compute, limit, Lock()
        self._held: OrderedDict[tuple[Path, bool], Future[ImageFeatures]] = OrderedDict()
        self.computed = 0

    def get(self, photo: Photo) -> ImageFeatures:
        """Compute the features, or wait for the thread that does."""
        key = photo.path, photo.mirrored
        with self._lock:
            new = key not in self._held
            if new:
                self._make_room()
                self._held[key] = Future()
                self.computed += 1
            self._held.move_to_end(key)
            features = self._held[key]
        if new:
            try:
                features.set_result(self._compute(photo))
            except BaseException as error:
                features.set_exception(error)
        return features.result()

    def _make_room(self) -> None:
        sizes = {k: f.result().nbytes for k, f in self._held.items() if f.done() and not f.exception()}
        held = sum(sizes.values())
        for key, size in sizes.items():
            if held > self._limit:
                del self._held[key]
                held -= size


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

    def _compute(self, photo: Photo) -> ImageFeatures:
        return self.matcher.features(photo.image(), str(photo.path))

    def _predict(self, pair: Pair) -> PairPrediction:
        points = self._points(pair.source)
        if len(points) == 0:
            raise InputError("no common points")
        images = self.features.get(pair.source), self.features.get(pair.target)
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
