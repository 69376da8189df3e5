"""Where the photos are: references with their labels, and the photos that labels are carried to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..errors import InputError
from ..images import read_image, read_size
from ..pair_list import PHOTOS, list_photos
from ..points import parse_points
from .annotations import VISIBLE, AnnotatedImage, Annotations, Category, Floats, LabelledObject
from .formats import is_annotation_file, read_annotations
from .formats.records import at
from .photo_points import read_photo_points

UPLOAD = re.compile(r"^[0-9a-f]{8}-")  # what Label Studio puts before the name of an upload


@dataclass(frozen=True, eq=False)
class Reference:
    """An object whose labels are carried to others."""

    path: Path
    size: tuple[int, int]
    object: LabelledObject


class Place(NamedTuple):
    """Where an object is to be labelled: in a box, or in the whole photo; None for any category."""

    category: str | None = None
    box: Floats | None = None


WHOLE = Place()


class Target(NamedTuple):
    """A photo to label."""

    name: str  # of the file, as the results call it
    path: Path
    places: tuple[Place, ...] = (WHOLE,)


class Targets(NamedTuple):
    """The photos to label, how many other files their folder holds, and what is to be said of them."""

    photos: tuple[Target, ...]
    ignored: int = 0
    notes: tuple[str, ...] = ()


def find_photo(name: str, folders: Sequence[Path]) -> Path | None:
    """A photo below one of the folders, as an annotation file calls it."""
    names = dict.fromkeys((name, UPLOAD.sub("", name)))
    places = (
        folder / inner / one for one in names for folder in folders for inner in ("", "images", "JPEGImages")
    )
    return next((path for path in places if path.is_file()), None)


def photo_folders(file: Path, images: Path | None) -> list[Path]:
    """Where the photos of an annotation file are looked for."""
    if images is not None and not images.is_dir():
        raise InputError(f"{images} is no folder; wanted the one that holds the photos of {file}")
    return [file.parent] if images is None else [images]


def read_references(
    file: Path, images: Path | None = None, points: Path | str | None = None
) -> tuple[Annotations, list[Reference]]:
    """The annotated objects of a file, with their photos; or of a photo, the given points."""
    if points is not None:
        annotations = annotations_of_points(file, points)
        return annotations, references_of(annotations, [file.parent], str(points))
    if file.suffix.lower() in PHOTOS:
        raise InputError(
            f"{file} is a photo; give its keypoints with --points, or an annotation file instead"
        )
    annotations = read_annotations(file)
    return annotations, references_of(annotations, photo_folders(file, images), str(file))


def annotations_of_points(photo: Path, points: Path | str) -> Annotations:
    """A photo with points as the keypoints of an object; an annotation file may say more about the photo."""
    size = read_size(photo)
    if not parse_points(str(points)) and is_annotation_file(Path(points)):
        annotations = read_annotations(Path(points))
        images = tuple(
            replace(image, file_name=photo.name)
            for image in annotations
            if Path(image.file_name).name == photo.name or len(annotations) == 1
        )
        if not images:
            raise InputError(f"{points} does not name {photo.name}; wanted its annotation")
        return replace(annotations, images=images)
    marked, names = read_photo_points(points, photo)
    numbers = tuple(str(number) for number in range(1, len(marked) + 1))
    category = Category("object", numbers if names is None else names)
    with at(str(points)[:80]):
        one = LabelledObject(category, np.array([[*point, VISIBLE] for point in marked]))
    return Annotations((category,), (AnnotatedImage(photo.name, size, (one,)),))


def references_of(
    annotations: Annotations, folders: Sequence[Path], name: str = "references"
) -> list[Reference]:
    """The objects that have labels, with their photos below the folders; an error without any."""
    found = []
    for image in annotations:
        objects = [one for one in image.objects if one.bounds() is not None]
        if objects:
            path = find_photo(image.file_name, folders)
            if path is None:
                where = " or ".join(map(str, folders))
                raise InputError(
                    f"{name}: its photo {image.file_name} is not in {where}; give its folder as --images"
                )
            size = read_image(path).size  # all of it: labels of a photo that is cut off are of no use
            if image.size is not None and image.size != size:
                said = "{} x {}".format(*image.size)
                raise InputError(f"{path} is {size[0]} x {size[1]} pixels, but {name} says {said}")
            found += [
                Reference(path, size, _inside(one, size, f"{name}, {image.file_name}")) for one in objects
            ]
    if not found:
        raise InputError(
            f"{name} holds no labelled object; wanted at least one with keypoints, polygons or a box"
        )
    return found


def _inside(one: LabelledObject, size: tuple[int, int], place: str) -> LabelledObject:
    """The object, its polygons and box cut at the photo's edge; an error for a keypoint beyond it."""
    points = one.keypoints[one.shown, :2]
    outside = ((points < -0.5) | (points > size)).any(axis=1)
    if outside.any():
        x, y = points[outside][0]
        raise InputError(f"{place}: a keypoint at ({x:g}, {y:g}) lies outside {size[0]} x {size[1]} pixels")
    edge = [side - 0.5 for side in size]
    polygons = tuple(polygon.clip([-0.5, -0.5], edge) for polygon in one.polygons)
    box = None if one.box is None else one.box.clip(-0.5, [*edge, *edge])
    return replace(one, polygons=polygons, box=box)


def read_targets(photos: Path, images: Path | None, categories: Sequence[str]) -> Targets:
    """The photos of a folder; or of an annotation file, with its boxes of the given categories."""
    if photos.is_dir():
        listed, ignored = list_photos(photos)
        if not listed:
            raise InputError(f"{photos} holds no photos; wanted a folder of photos, or an annotation file")
        return Targets(tuple(Target(path.name, path) for path in listed), ignored)
    annotations = read_annotations(photos)
    folders = photo_folders(photos, images)
    targets, left_out = [], 0
    for image in annotations:
        targets.append(Target(image.file_name, _located(image, folders), _places(image, categories)))
        left_out += sum(one.category.name not in categories for one in image.objects)
    if not any(target.places for target in targets):
        raise InputError(f"{photos} holds no photos, or no object that is a {' or '.join(categories)}")
    names = [target.name for target in targets]
    if len(set(names)) < len(names):
        raise InputError(f"{photos} names a photo twice; wanted each once, with all its objects")
    said = [f"{left_out} objects of categories without a reference are left out"] if left_out else []
    return Targets(tuple(targets), notes=(*annotations.notes, *said))


def _located(image: AnnotatedImage, folders: Sequence[Path]) -> Path:
    """Where the photo is, or should be: reading it will say that it is missing."""
    return find_photo(image.file_name, folders) or folders[0] / image.file_name


def _places(image: AnnotatedImage, categories: Sequence[str]) -> tuple[Place, ...]:
    """A place for each object with a box; an image without objects is looked at as a whole."""
    if not image.objects:
        return (WHOLE,)
    known = [one for one in image.objects if one.category.name in categories]
    return tuple(Place(one.category.name, one.bounds()) for one in known)
