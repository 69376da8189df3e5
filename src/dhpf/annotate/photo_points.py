"""The points of one photo, however a person gives them: typed, a file of points, or an annotation file."""

from __future__ import annotations

from pathlib import Path

from ..errors import InputError
from ..points import NamedPoints, parse_points, read_named_points
from .formats import is_annotation_file, read_annotations


def read_photo_points(given: Path | str, photo: Path) -> NamedPoints:
    """Points of a photo: '76,136 90,140', a file of points, or what an annotation file says about the photo.

    An annotation file of one image is taken to be about the photo, whatever it calls it.
    """
    typed = parse_points(str(given))
    if typed is not None:
        return typed
    file = Path(given)
    if not is_annotation_file(file):
        return read_named_points(file)
    annotations = read_annotations(file)
    images = [image for image in annotations if Path(image.file_name).name == photo.name]
    if not images and len(annotations) == 1:
        images = list(annotations)
    if len(images) != 1:
        raise InputError(f"{file} names {len(images)} images {photo.name}; wanted one, to know its points")
    objects = [one for one in images[0].objects if one.shown.any()]
    if not objects:
        raise InputError(f"{file} holds no keypoints of {photo.name}; wanted at least one")
    several = len(objects) > 1
    named = {
        f"{number} {name}" if several else name: list(point)
        for number, one in enumerate(objects, start=1)
        for name, point in one.points.items()
    }
    return NamedPoints(list(named.values()), tuple(named))
