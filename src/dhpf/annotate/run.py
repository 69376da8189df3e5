"""A whole folder: features once a photo, memory bounded, resumed after a kill, divided among processes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..files import real_path, sha256
from ..images import read_size
from ..journal import Journal
from ..processes import rank_and_world_size, wait_for_others
from ..progress import shown
from .annotations import ABSENT, AnnotatedImage, Annotations, Category, LabelledObject
from .formats import encode
from .journal import FinishedPhoto, photo_of
from .photos import Reference, Target, Targets, read_references, read_targets
from .transfer import MOST_VOTES, Annotator

if TYPE_CHECKING:
    import os

    from ..matcher import Matcher


@dataclass(frozen=True)
class Job:
    """References and the photos that get their labels."""

    categories: tuple[Category, ...]
    references: tuple[Reference, ...]
    targets: Targets
    notes: tuple[str, ...] = ()

    def marked(self) -> dict[Path, tuple[LabelledObject, ...]]:
        """The objects of reference photos, which stay as people marked them."""
        found: dict[Path, tuple[LabelledObject, ...]] = {}
        for reference in self.references:
            path = real_path(reference.path)
            found[path] = (*found.get(path, ()), reference.object)
        return found


@dataclass(frozen=True)
class Done:
    """What a run did: the annotations are complete in the first process only."""

    annotations: Annotations
    labelled: int
    kept: int  # finished by an earlier run
    failed: tuple[str, ...]  # one line a photo


def read_job(
    references: Path, photos: Path, images: Path | None = None, points: str | Path | None = None
) -> Job:
    """What annotation files and folders ask for; with points, the reference is a photo."""
    annotations, found = read_references(references, images, points)
    names = list(dict.fromkeys(reference.object.category.name for reference in found))
    return Job(annotations.categories, tuple(found), read_targets(photos, images, names), annotations.notes)


def annotate(
    references: str | os.PathLike[str],
    photos: str | os.PathLike[str],
    *,
    points: str | os.PathLike[str] | None = None,
    images: str | os.PathLike[str] | None = None,
    matcher: Matcher | None = None,
    votes: int = MOST_VOTES,
    min_confidence: float = 0.0,
) -> Annotations:
    """Carry the labels of a few annotated photos to others.

    Parameters
    ----------
    references
        An annotation file (COCO, CVAT, Label Studio, DeepLabCut, plain JSON or CSV); or a photo.
    photos
        A folder of photos; or an annotation file, whose boxes say where the objects are.
    points
        Of the photo, if it is one: a file, or text as "76,136 90,140".
    images
        The folder of the photos that annotation files name; by default they are beside the files.
    matcher
        See :func:`dhpf.load`; by default the default model.
    votes
        How many references vote on an object: the most similar ones.
    min_confidence
        Keypoints whose score is lower are absent.
    """
    check_confidence(min_confidence)
    folder = None if images is None else Path(images)
    job = read_job(Path(references), Path(photos), folder, None if points is None else str(points))
    if matcher is None:
        from ..matcher import load

        matcher = load()
    done = run(job, Annotator(matcher, job.references, votes))
    if done.failed:
        raise InputError(f"{len(done.failed)} photos failed, the first: {done.failed[0]}")
    found = replace(done.annotations, notes=(*job.notes, *job.targets.notes))
    return confident(found, min_confidence)


def run(
    job: Job,
    annotator: Annotator,
    kept_in: Path | None = None,
    last: Callable[[Annotations], None] | None = None,
) -> Done:
    """Label all photos that are not finished yet.

    Under torchrun, this process takes its part. A photo that cannot be read is reported and does not stop the
    others.

    Parameters
    ----------
    kept_in
        How the files begin that hold what is finished, so that a killed run can go on; without it, none.
    last
        What the first process does with all annotations, while the others wait.
    """
    rank, world = rank_and_world_size()
    journal, before = None, {}
    if kept_in is not None:
        categories = {category.name: category for category in job.categories}
        settings = _settings(job, annotator)
        journal = Journal(kept_in, settings, rank, lambda line: photo_of(line, categories))
        before = _by_name(journal)
    finished: dict[str, FinishedPhoto] = {}
    marked = job.marked()
    photos = job.targets.photos
    mine = photos[len(photos) * rank // world : len(photos) * (rank + 1) // world]
    failed = []
    kept = 0
    keeping: AbstractContextManager[Callable[[dict[str, Any]], None]] = nullcontext(lambda line: None)
    with keeping if journal is None else journal.appending() as keep:
        for target in shown(mine, "annotating", len(mine), hidden=rank > 0):
            try:
                checksum = sha256(target.path) if journal is not None and target.path.is_file() else ""
                known = before.get(target.name)
                if known is not None and known.checksum == checksum:
                    finished[target.name] = known
                    kept += 1
                    continue
                photo = FinishedPhoto(checksum, _label(target, marked, annotator))
            except InputError as error:
                failed.append(f"{target.name}: {error}")
                continue
            finished[target.name] = photo
            keep(photo.record())
    complete: list[Annotations] = [_in_order(job, finished)]

    def end() -> None:
        if journal is not None:
            complete[0] = _in_order(job, _by_name(journal))
        if failed and not len(complete[0]):
            raise InputError(f"not one of the photos could be annotated, the first: {failed[0]}")
        if last is not None:
            last(complete[0])

    wait_for_others(end)
    return Done(complete[0], len(mine) - kept - len(failed), kept, tuple(failed))


def check_confidence(least: float) -> None:
    """Raise unless it can be one."""
    if not 0 <= least <= 1:
        raise InputError(f"a least confidence of {least:g} was asked for; wanted 0 to 1")


def confident(annotations: Annotations, least: float) -> Annotations:
    """The same, keypoints with a lower score absent; their scores stay."""
    check_confidence(least)
    images = tuple(
        replace(image, objects=tuple(_confident(one, least) for one in image.objects))
        for image in annotations
    )
    return replace(annotations, images=images)


def _confident(one: LabelledObject, least: float) -> LabelledObject:
    if one.scores is None:
        return one
    keep = one.shown & (one.scores >= least)
    return replace(one, keypoints=np.where(keep[:, None], one.keypoints, ABSENT))


def _label(
    target: Target, marked: dict[Path, tuple[LabelledObject, ...]], annotator: Annotator
) -> AnnotatedImage:
    size = read_size(target.path)
    objects = marked.get(real_path(target.path))
    if objects is None:
        objects = tuple(annotator.label(target.path, size, place) for place in target.places)
    return AnnotatedImage(target.name, size, objects)


def _by_name(journal: Journal[FinishedPhoto]) -> dict[str, FinishedPhoto]:
    return {photo.image.file_name: photo for photo in journal.finished()}


def _in_order(job: Job, finished: dict[str, FinishedPhoto]) -> Annotations:
    images = tuple(finished[target.name].image for target in job.targets.photos if target.name in finished)
    return Annotations(job.categories, images)


def _settings(job: Job, annotator: Annotator) -> dict[str, object]:
    """What the result of a photo depends on, but its content."""
    matcher = annotator.matcher
    places = [
        (target.name, [(p.category, _plain(p.box)) for p in target.places]) for target in job.targets.photos
    ]
    boxes = [place for place in places if any(box is not None for _, box in place[1])]
    return {
        "model": matcher.name,
        "size": list(matcher.size),
        "weights": matcher.fingerprint,
        "votes": annotator.votes,
        "references": _checksum(job.references),
        "boxes": hashlib.sha256(repr(boxes).encode()).hexdigest(),
    }


def _checksum(references: Sequence[Reference]) -> str:
    """Of the references' labels and photos."""
    digest = hashlib.sha256()
    for reference in references:
        image = AnnotatedImage("reference", reference.size, (reference.object,))
        one = Annotations((reference.object.category,), (image,))
        digest.update(encode(one, "coco").content)
        digest.update(sha256(reference.path).encode())
    return digest.hexdigest()


def _plain(box: object) -> object:
    return None if box is None else np.asarray(box).tolist()
