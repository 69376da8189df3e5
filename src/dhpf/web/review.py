"""A review of annotations: photos that a person confirms or corrects, kept on the disc at every change.

The file that is reviewed is never changed. Beside ``annotations.json`` there will be
``annotations.reviewed.json``, complete at any time, and ``annotations.reviewed.json.log``: a line a change,
from which a review goes on. A file that has such a log is a review's own, and goes on in its place.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ..annotate.annotations import ABSENT, VISIBLE, AnnotatedImage, Annotations, Category, LabelledObject
from ..annotate.formats import read_annotations
from ..annotate.formats.coco import to_coco
from ..annotate.journal import object_of, object_record
from ..annotate.photos import WHOLE, Place, Reference
from ..annotate.transfer import with_box
from ..errors import InputError
from ..files import write_atomically
from ..images import read_size
from ..journal import Lines, whole_lines
from .review_files import photo_below, review_files

Status: TypeAlias = Literal["predicted", "changed", "reviewed"]  # changed by a person, but not confirmed yet


@dataclass(frozen=True, eq=False)
class ReviewedPhoto:
    """A photo, and how far its review is."""

    path: Path
    image: AnnotatedImage
    status: Status
    version: int = 0  # counts the changes

    def changed(self, objects: Sequence[LabelledObject], status: Status) -> ReviewedPhoto:
        """The next version."""
        image = replace(self.image, objects=tuple(objects))
        return ReviewedPhoto(self.path, image, status, self.version + 1)


class Review:
    """The photos of an annotation file, in its order, then those of references, which stay as they are.

    Parameters
    ----------
    annotations
        The file to review.
    images
        The folder of its photos.
    references
        Further annotated objects, to look at and to predict from.
    inside_boxes
        The boxes are given: they stay, and predictions are made inside them. Without it, predicted boxes
        follow their keypoints, and only photos with several objects are looked at box by box.
    """

    def __init__(
        self,
        annotations: Path,
        images: Path,
        references: Sequence[Reference] = (),
        inside_boxes: bool = False,
    ) -> None:
        if not images.is_dir():
            raise InputError(f"{images} is no folder; wanted the one that holds the photos of {annotations}")
        self._given = read_annotations(annotations)
        self.inside_boxes = inside_boxes
        self.path, log = review_files(annotations)
        self.photos = [
            ReviewedPhoto(photo_below(images, image.file_name, annotations), image, _status(image))
            for image in self._given
        ]
        if not self.photos:
            raise InputError(f"{annotations} names no photos; there is nothing to review")
        self.count = len(self.photos)  # of the photos under review
        self._index = {photo.image.file_name: index for index, photo in enumerate(self.photos)}
        if len(self._index) < self.count:
            raise InputError(f"{annotations} names a photo twice; wanted each once, with all its objects")
        self._encoded: dict[int, tuple[ReviewedPhoto, dict[str, Any]]] = {}
        self._undoable: list[tuple[int, ReviewedPhoto]] = []  # what was before
        self._log = Lines(log, f"{log} is in use by another dhpf web; stop that one first", durable=True)
        try:
            self._replay()
        except InputError:
            self.close()
            raise
        known = {photo.path.resolve() for photo in self.photos}
        self.photos += [_of_reference(one) for one in references if one.path.resolve() not in known]
        self.save()

    @property
    def annotations(self) -> Annotations:
        """As they are now."""
        return replace(self._given, images=tuple(photo.image for photo in self.photos[: self.count]))

    @property
    def can_undo(self) -> bool:
        """Was anything changed?"""
        return bool(self._undoable)

    def order(self) -> list[int]:
        """The photos in the order in which people should look at them: least sure first, reviewed last."""
        photos = self.photos[: self.count]
        sure = [(photo.status == "reviewed", photo.image.confidence) for photo in photos]
        return sorted(range(self.count), key=lambda index: (*sure[index], photos[index].image.file_name))

    def size(self, index: int) -> tuple[int, int]:
        """Width and height of a photo."""
        photo = self.photos[index]
        size = read_size(photo.path)
        if photo.image.size not in (None, size):
            width, height = photo.image.size or size
            raise InputError(
                f"{photo.image.file_name} is {size[0]} x {size[1]} pixels, but its annotation says "
                f"{width} x {height}; wanted the photo that was annotated"
            )
        return size

    def references(self) -> list[Reference]:
        """What predictions are made from: given references and the reviewed photos."""
        return [
            Reference(photo.path, self.size(index), one)
            for index, photo in enumerate(self.photos)
            if photo.status == "reviewed"
            for one in photo.image.objects
            if one.bounds() is not None
        ]

    def places(self, index: int) -> tuple[Place, ...]:
        """Where objects of a photo are to be predicted."""
        objects = self.photos[index].image.objects
        if not objects:
            return (WHOLE,)
        if self.inside_boxes or len(objects) > 1:
            return tuple(Place(one.category.name, one.bounds()) for one in objects)
        return (Place(objects[0].category.name),)

    def move(
        self, index: int, version: int | None, number: int, keypoint: int, at: Sequence[float] | None
    ) -> None:
        """Put a keypoint of an object somewhere, x then y, or mark it absent."""
        photo = self._current(index, version)
        objects = list(photo.image.objects)
        if not 0 <= number < len(objects) or not 0 <= keypoint < len(objects[number].keypoints):
            raise InputError("there is no such keypoint; wanted the numbers of an object and of its keypoint")
        size = self.size(index)
        if at is not None and not all(-0.5 <= value <= side for value, side in zip(at, size, strict=True)):
            raise InputError(f"({at[0]:g}, {at[1]:g}) lies outside the photo of {size[0]} x {size[1]} pixels")
        objects[number] = self._moved(objects[number], keypoint, at, size)
        self._change(index, photo.changed(objects, "reviewed" if photo.status == "reviewed" else "changed"))

    def confirm(self, index: int, version: int | None) -> None:
        """Mark a photo as reviewed: its objects are as a person wants them, and have no scores any more."""
        photo = self._current(index, version)
        if photo.status != "reviewed":
            objects = [replace(one, scores=None) for one in photo.image.objects]
            self._change(index, photo.changed(objects, "reviewed"))

    def undo(self) -> int:
        """Take back the last change; the photo that it was of."""
        if not self._undoable:
            raise InputError("there is nothing to undo")
        self._log.add({"undo": True})
        index = self._take_back()
        self.save()
        return index

    def predict(self, index: int, version: int, objects: Sequence[LabelledObject]) -> None:
        """Replace a prediction, unless a person changed the photo meanwhile. The caller saves in the end."""
        photo = self.photos[index]
        if photo.version != version or photo.status != "predicted":
            return
        after = photo.changed(objects, "predicted")
        self._log.add({"photo": photo.image.file_name, "after": _plain(after)})
        self.photos[index] = after

    def save(self) -> None:
        """Write the annotations, as ``Annotations.save`` would; what did not change is not encoded again."""
        images: list[dict[str, Any]] = []
        objects: list[dict[str, Any]] = []
        for number in range(1, self.count + 1):
            content = self._encode(number - 1)
            images += [image | {"id": number} for image in content["images"]]
            for one in content["annotations"]:
                objects.append(one | {"id": len(objects) + 1, "image_id": number})
        categories = to_coco(replace(self._given, images=()))["categories"]
        content = {"images": images, "annotations": objects, "categories": categories}
        write_atomically(
            self.path, (json.dumps(content, allow_nan=False, ensure_ascii=False) + "\n").encode()
        )

    def _encode(self, index: int) -> dict[str, Any]:
        photo, (known, content) = self.photos[index], self._encoded.get(index, (None, {}))
        if known is not photo:
            content = to_coco(replace(self._given, images=(photo.image,)))
            self._encoded[index] = photo, content
        return content

    def close(self) -> None:
        """Let others go on with the review."""
        self._log.close()

    def _current(self, index: int, version: int | None) -> ReviewedPhoto:
        if index >= self.count:
            raise InputError("references stay as they are; correct the photos of the review")
        photo = self.photos[index]
        if version != photo.version:
            raise ChangedMeanwhileError
        return photo

    def _moved(
        self, one: LabelledObject, keypoint: int, at: Sequence[float] | None, size: tuple[int, int]
    ) -> LabelledObject:
        keypoints = one.keypoints.copy()
        if at is None:
            keypoints[keypoint, 2] = ABSENT
        else:
            keypoints[keypoint] = [*at, keypoints[keypoint, 2] or VISIBLE]
        scores = None if one.scores is None else one.scores.copy()
        if scores is not None:
            scores[keypoint] = 1.0  # a person says so
        after = replace(one, keypoints=keypoints, scores=scores)
        return after if self.inside_boxes or one.polygons else with_box(one, after, size)

    def _change(self, index: int, after: ReviewedPhoto) -> None:
        """First into the log, where it cannot be lost."""
        before = self.photos[index]
        self._log.add({"photo": after.image.file_name, "before": _plain(before), "after": _plain(after)})
        self._undoable.append((index, before))
        self.photos[index] = after
        self.save()

    def _take_back(self) -> int:
        index, before = self._undoable.pop()
        version = self.photos[index].version + 1
        self.photos[index] = replace(before, version=version)
        return index

    def _replay(self) -> None:
        """Go on from the log."""
        categories = {category.name: category for category in self._given.categories}
        lines = whole_lines(self._log.path)
        for number, line in enumerate(lines, start=1):
            try:
                self._take(json.loads(line), categories)
            except (ValueError, KeyError, TypeError, IndexError, InputError):
                raise InputError(
                    f"{self._log.path}, line {number}, does not fit the annotations; "
                    f"move {self.path.name} and its log away to begin again"
                ) from None
        self._log.keep(sum(len(line) + 1 for line in lines))  # not half a line, which a kill may have left

    def _take(self, line: dict[str, Any], categories: dict[str, Category]) -> None:
        if "undo" in line:
            self._take_back()
        elif line["photo"] in self._index:  # else it is no longer in the file
            index = self._index[line["photo"]]
            photo = self.photos[index]
            states = {
                when: photo.changed(
                    [object_of(one, categories) for one in record["objects"]], record["status"]
                )
                for when, record in line.items()
                if when != "photo"
            }
            if "before" in states:
                self._undoable.append((index, states["before"]))
            self.photos[index] = states["after"]


class ChangedMeanwhileError(Exception):
    """The photo is no longer what the person saw, such as in another window."""


def _status(image: AnnotatedImage) -> Status:
    """People's marks have no scores."""
    by_hand = bool(image.objects) and all(one.scores is None for one in image.objects)
    return "reviewed" if by_hand else "predicted"


def _of_reference(reference: Reference) -> ReviewedPhoto:
    image = AnnotatedImage(reference.path.name, reference.size, (reference.object,))
    return ReviewedPhoto(reference.path, image, "reviewed")


def _plain(photo: ReviewedPhoto) -> dict[str, Any]:
    return {"status": photo.status, "objects": [object_record(one) for one in photo.image.objects]}
