"""Pairs of a data set -> predicted points, in worker threads that read, compute and match ahead.

Every image and every pair is computed by one thread, and several of them side by side. The last bits of a
matrix product depend on the number of threads that share it; this way no result does.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from ..data.pairs import Pair, PairDataset, Photo
from ..errors import InputError
from ..matcher import ImageFeatures, Matcher
from .parts import Outcome, Skip
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


class Pipeline:
    """Computes pairs, and the features of each image once as long as they are kept.

    Parameters
    ----------
    polygons
        Carry the object's outline over, not its keypoints.
    direction
        ``target-to-source`` carries points from the second image of each pair to the first.
    pool, workers
        Of :func:`worker_threads`, and how many they are.
    cache_bytes
        Bound on the memory for features that may be asked for again.
    """

    def __init__(
        self,
        matcher: Matcher,
        dataset: PairDataset,
        *,
        polygons: bool,
        direction: str,
        pool: ThreadPoolExecutor,
        workers: int,
        cache_bytes: int,
    ) -> None:
        self.matcher, self.dataset = matcher, dataset
        self.polygons, self.direction = polygons, direction
        self.cache_bytes = cache_bytes
        self._pool, self._workers = pool, workers
        self.images = 0  # whose features were computed
        self._features: OrderedDict[tuple[Path, bool], Future[ImageFeatures]] = OrderedDict()

    def outcomes(self, indices: Iterable[int]) -> Iterator[tuple[int, Outcome]]:
        """The outcome of each pair, in the given order; two pairs a worker are begun ahead."""
        begun: deque[tuple[int, Future[Outcome]]] = deque()
        for index in indices:
            begun.append((index, self._begin(index)))
            if len(begun) > 2 * self._workers:
                first, outcome = begun.popleft()
                yield first, outcome.result()
        for index, outcome in begun:
            yield index, outcome.result()

    def _begin(self, index: int) -> Future[Outcome]:
        """A pair goes to the pool after the images it waits for, so the workers never all wait."""
        try:
            pair = self.dataset[index]
            if not self.polygons and len(pair.source.points) == 0:
                raise InputError("no common points")
        except InputError as error:
            return self._pool.submit(Skip, self.dataset.entries[index].id, str(error))
        if self.direction != DIRECTIONS[0]:
            pair = pair.swap()
        source, target = self._features_of(pair.source), self._features_of(pair.target)
        return self._pool.submit(self._predict, pair, source, target)

    def _features_of(self, photo: Photo) -> Future[ImageFeatures]:
        key = photo.path, photo.mirrored
        if key not in self._features:
            self._make_room()
            self._features[key] = self._pool.submit(self._compute, photo)
            self.images += 1
        self._features.move_to_end(key)
        return self._features[key]

    def _make_room(self) -> None:
        """Forget the features that were asked for longest ago."""
        sizes = {k: f.result().nbytes for k, f in self._features.items() if f.done() and not f.exception()}
        held = sum(sizes.values())
        for key, size in sizes.items():
            if held > self.cache_bytes:
                del self._features[key]
                held -= size

    def _compute(self, photo: Photo) -> ImageFeatures:
        return self.matcher.features(photo.image(), str(photo.path))

    def _predict(self, pair: Pair, source: Future[ImageFeatures], target: Future[ImageFeatures]) -> Outcome:
        try:
            match = self.matcher.match(source.result(), target.result(), scores=False)
        except InputError as error:
            return Skip(pair.id, str(error))
        points = self._points(pair.source)
        on = None
        if match.layers is not None:
            on = np.zeros(len(self.matcher.method.backbone.channels), np.bool_)
            on[list(match.layers)] = True
        return PairPrediction(
            pair_id=pair.id,
            category=pair.category,
            source_image=self._name(pair.source),
            target_image=self._name(pair.target),
            source_size=pair.source.size,
            target_size=pair.target.size,
            source_points=points,
            predicted_points=match.transfer(points.clip(0, pair.source.size)),
            target_points=self._points(pair.target),
            target_box=pair.target.box,
            flags=pair.flags,
            layers=on,
            gate_probabilities=match.layer_probability,
        )

    def _points(self, photo: Photo) -> NDArray[np.float64]:
        return photo.polygon if self.polygons and photo.polygon is not None else photo.points

    def _name(self, photo: Photo) -> str:
        return photo.path.relative_to(self.dataset.root).as_posix()
