"""Labels of references -> an object in another photo: the most similar references vote, keypoint by keypoint.

R references that vote  K keypoints of a category
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..feature_cache import FeatureCache
from ..images import SMALLEST_SIDE, read_image
from .annotations import ABSENT, HIDDEN, VISIBLE, Floats, LabelledObject
from .photos import WHOLE, Place, Reference

if TYPE_CHECKING:
    from PIL import Image

    from ..matcher import ImageFeatures, Matcher

MOST_VOTES = 8  # references that vote on an object, by default
MARGIN = 0.1  # of the box's sides, that is seen around it
FOLLOWS = 0.02  # pixels: a box that is no farther from the keypoints' bounds was made of them
AGREEMENT = 0.1  # of the object's longer side: how near votes for one location are


class View(NamedTuple):
    """A photo, or a part of it: left, top, right, bottom in whole pixels."""

    path: Path
    region: tuple[int, int, int, int] | None = None

    @property
    def corner(self) -> Floats:
        """Of the part, in pixels of the photo."""
        return np.array([0, 0] if self.region is None else self.region[:2], np.float64)


@dataclass(frozen=True, eq=False)
class Vote:
    """Where one reference puts its labels, in pixels of the photo."""

    points: Floats  # (K, 2)
    confidence: Floats  # (K,), 0 where the reference does not show the keypoint
    hidden: NDArray[np.bool_]  # (K,)
    polygons: tuple[Floats, ...]
    box: Floats | None
    sure: float  # mean confidence of all that it moved


class Annotator:
    """Carries the labels of references to objects in other photos.

    Parameters
    ----------
    references
        Of one or several categories.
    votes
        How many references vote on an object: the most similar ones of its category.
    features
        How a view's features are computed, by default by the matcher; for those that are kept on the disc.
    cache_bytes
        Bound on the memory for features that may be used again.
    """

    def __init__(
        self,
        matcher: Matcher,
        references: Sequence[Reference],
        votes: int = MOST_VOTES,
        features: Callable[[View], ImageFeatures] | None = None,
        cache_bytes: int = 2**30,
    ) -> None:
        if votes < 1:
            raise InputError(f"{votes} references were asked for; wanted 1 or more")
        self.matcher, self.references, self.votes = matcher, list(references), votes
        self.features = features or (lambda view: see(matcher, view))
        self._cache: FeatureCache[View, ImageFeatures] = FeatureCache(self.features, cache_bytes)
        self._descriptors: dict[View, Floats] = {}

    def label(self, path: Path, size: tuple[int, int], place: Place = WHOLE) -> LabelledObject:
        """Label an object of a photo of that size, in its box or in the whole photo."""
        view = View(path, None if place.box is None else region_around(place.box, size))
        target = self.features(view)
        chosen = self._most_similar(target, place)
        votes = [self._vote(reference, target, view) for reference in chosen]
        return _elected(chosen, votes, place.box, size)

    def _most_similar(self, target: ImageFeatures, place: Place) -> list[Reference]:
        """The references that vote, most similar first; all of one category."""
        known = [r for r in self.references if place.category in (None, r.object.category.name)]
        if not known:
            raise InputError(f"no reference shows a {place.category}")
        mine = describe(target)
        views = [_view_of(reference, place.box is not None) for reference in known]
        similarity = [float(mine @ self._descriptor(view)) for view in views]
        order = sorted(range(len(known)), key=lambda index: -similarity[index])
        category = known[order[0]].object.category
        return [known[index] for index in order if known[index].object.category == category][: self.votes]

    def _descriptor(self, view: View) -> Floats:
        if view not in self._descriptors:
            self._descriptors[view] = describe(self._cache.get(view))
        return self._descriptors[view]

    def _vote(self, reference: Reference, target: ImageFeatures, view: View) -> Vote:
        source = _view_of(reference, view.region is not None)
        match = self.matcher.match(self._cache.get(source), target, scores=False)
        one, largest = reference.object, np.array(match.source.size) - 0.5

        def moved(points: Floats) -> tuple[Floats, Floats]:
            inside = (points - source.corner).clip(-0.5, largest)
            return match.transfer(inside) + view.corner, match.confidence_at(inside)

        points, confidence = moved(one.keypoints[:, :2])
        polygons = [moved(polygon) for polygon in one.polygons]
        grid = _grid(one)
        box = moved_box(one, grid, moved(grid)[0]) if one.box is not None and not polygons else None
        sure = np.concatenate([confidence[one.shown], *(part[1] for part in polygons)])
        return Vote(
            points,
            np.where(one.shown, confidence, 0.0),
            one.keypoints[:, 2] == HIDDEN,
            tuple(part[0] for part in polygons),
            box,
            float(sure.mean()) if len(sure) else 0.0,
        )


def crop(view: View) -> Image.Image:
    """The pixels of a view."""
    image = read_image(view.path)
    return image if view.region is None else image.crop(view.region)


def see(matcher: Matcher, view: View) -> ImageFeatures:
    """The features of a view."""
    return matcher.features(crop(view), str(view.path))


def describe(seen: ImageFeatures) -> Floats:
    """A global descriptor of unit length: the mean of each layer's features, each of the same weight."""
    layers = [layer.detach().cpu().double().numpy() for layer in seen.features.pooled.values()]
    parts = [layer / max(float(np.linalg.norm(layer)), 1e-12) for layer in layers]
    return np.concatenate(parts) / math.sqrt(len(parts))


def region_around(box: Floats, size: tuple[int, int]) -> tuple[int, int, int, int]:
    """The pixels of a box with a margin, within the photo; never too few to match."""
    sides = box[2:] - box[:2]
    low, high = box[:2] - MARGIN * sides, box[2:] + MARGIN * sides
    edges = []
    for axis in (0, 1):
        least = min(SMALLEST_SIDE, size[axis])
        first = int(np.clip(math.floor(low[axis] + 0.5), 0, size[axis] - least))
        edges.append((first, int(np.clip(math.ceil(high[axis] + 0.5), first + least, size[axis]))))
    (left, right), (top, bottom) = edges
    return left, top, right, bottom


def fuse(points: Floats, confidence: Floats, length: float) -> tuple[Floats, Floats, Floats]:
    """Votes on keypoints -> where most of the confidence agrees, and how sure that is.

    Each vote is a Gaussian as high as its confidence. The location is the mode of their sum among the votes,
    refined to the mean of the votes near it. A single vote is taken as it is; two that disagree are decided
    by confidence, never averaged. The score is the mean confidence, where votes that disagree count as 0.

    Parameters
    ----------
    points, confidence
        (R, K, 2) and (R, K); a confidence of 0 is no vote.
    length
        Of the object, in pixels.

    Returns
    -------
    Locations (K, 2), scores (K,), and the weight of every vote in its location (R, K).
    """
    sigma = max(AGREEMENT * length, 1e-6)
    squared = ((points[:, None] - points[None]) ** 2).sum(axis=-1)  # (R, R, K)
    near = np.exp(-squared / (2 * sigma**2))
    density = (near * confidence).sum(axis=1)  # (R, K)
    best = np.where(confidence > 0, density, -1).argmax(axis=0)  # (K,) of equals, the most similar reference
    weights = near[best, :, np.arange(len(best))].T * confidence  # (R, K)
    total = weights.sum(axis=0)
    location = (weights[..., None] * points).sum(axis=0) / np.maximum(total, 1e-12)[:, None]
    return location, total / np.maximum((confidence > 0).sum(axis=0), 1), weights


def _elected(
    chosen: list[Reference], votes: list[Vote], box: Floats | None, size: tuple[int, int]
) -> LabelledObject:
    """The object that the votes make; polygons and box are those of the surest vote that has them."""
    category = chosen[0].object.category
    points = np.stack([vote.points for vote in votes])
    confidence = np.stack([vote.confidence for vote in votes])
    location, scores, weights = fuse(points, confidence, _length(points, confidence, box))
    hidden = np.stack([vote.hidden for vote in votes])
    visibility = np.where((weights * hidden).sum(axis=0) * 2 > weights.sum(axis=0), HIDDEN, VISIBLE)
    visibility = np.where(confidence.any(axis=0), visibility, ABSENT)
    edge = np.array(size) - 0.5
    inside = np.where(visibility[:, None] > ABSENT, location.clip(-0.5, edge), 0)
    surest = max(votes, key=lambda vote: (bool(vote.polygons), vote.sure))
    polygons = tuple(polygon.clip(-0.5, edge) for polygon in surest.polygons)
    keypoints = np.column_stack([inside, visibility])
    found = surest.box if box is None else box
    if found is not None:
        found = found.clip(-0.5, [*edge, *edge])
        found = found if (found[:2] < found[2:]).all() else None
    labelled = LabelledObject(category, keypoints, found, polygons, scores.clip(0, 1))
    bounds = labelled.bounds() if found is None else None
    if bounds is None or not (bounds[:2] < bounds[2:]).all():
        return labelled
    return LabelledObject(category, keypoints, bounds, polygons, labelled.scores)


def _length(points: Floats, confidence: Floats, box: Floats | None) -> float:
    """The object's longer side: of its box, else of what the surest vote covers."""
    if box is not None:
        return float((box[2:] - box[:2]).max())
    surest = int(confidence.sum(axis=1).argmax())
    shown = points[surest][confidence[surest] > 0]
    return float(np.ptp(shown, axis=0).max()) if len(shown) > 1 else 1.0


def _view_of(reference: Reference, inside_box: bool) -> View:
    """Like with like: the object's part of the photo for targets in boxes, else the whole photo."""
    one = reference.object
    bounds = one.bounds()
    if not inside_box or bounds is None:
        return View(reference.path)
    marked = np.vstack([bounds.reshape(2, 2), one.keypoints[one.shown, :2]])  # some lie outside their box
    return View(reference.path, region_around(np.concatenate([marked.min(0), marked.max(0)]), reference.size))


def _grid(one: LabelledObject) -> Floats:
    """Points that tell where a box moves: its keypoints, or points all over it where there are too few."""
    points = one.keypoints[one.shown, :2]
    if one.box is None or (len(points) > 2 and (np.ptp(points, axis=0) > 0).all()):
        return points
    x, y = np.meshgrid(*(np.linspace(one.box[axis], one.box[axis + 2], 7)[1:-1] for axis in (0, 1)))
    return np.column_stack([x.ravel(), y.ravel()])


def moved_box(one: LabelledObject, before: Floats, after: Floats) -> Floats | None:
    """The box, stretched and shifted along each axis as its points were; None if they collapse."""
    if one.box is None or len(before) < 2:
        return None
    centre, spread = before.mean(axis=0), before.std(axis=0)
    scale = after.std(axis=0) / np.maximum(spread, 1e-6)
    box: Floats = (one.box.reshape(2, 2) - centre) * scale + after.mean(axis=0)
    return box.reshape(-1)


def with_box(before: LabelledObject, after: LabelledObject, size: tuple[int, int]) -> LabelledObject:
    """A predicted box goes where its keypoints go."""
    if before.box is None:
        return after
    bounds = replace(before, box=None).bounds()
    if bounds is not None and np.abs(bounds - before.box).max() <= FOLLOWS:
        box = replace(after, box=None).bounds()
    else:
        both = before.shown & after.shown
        box = moved_box(before, before.keypoints[both, :2], after.keypoints[both, :2])
    if box is None or not np.isfinite(box).all():
        return after
    edge = np.array(size) - 0.5
    box = box.clip(-0.5, [*edge, *edge])
    return replace(after, box=box) if (box[:2] < box[2:]).all() else after
