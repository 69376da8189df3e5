"""Formats: what is written is read again, by us and by the readers of others; what is lost is said."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path

import numpy as np
import pytest

from dhpf import InputError
from dhpf.annotate.annotations import AnnotatedImage, Annotations, Category, LabelledObject
from dhpf.annotate.formats import FORMATS, detect_format, encode, read_annotations

from .examples import CAT, annotations

ENDINGS = {"cvat": ".xml", "deeplabcut": ".csv", "csv": ".csv"}


def saved(one: Annotations, format: str, folder: Path) -> Path:
    path = folder / f"annotations{ENDINGS.get(format, '.json')}"
    path.write_bytes(encode(one, format).content)
    return path


def assert_same(a: LabelledObject, b: LabelledObject, but: tuple[str, ...] = ()) -> None:
    """Equal in all but the kinds that were lost."""
    assert "categories" in but or a.category.name == b.category.name
    assert list(a.points) == list(b.points)
    np.testing.assert_allclose(list(a.points.values()), list(b.points.values()), atol=0.01)
    if "hidden" not in but:
        np.testing.assert_array_equal(a.keypoints[:, 2], b.keypoints[:, 2])
    if "boxes" not in but and a.box is not None:
        assert b.box is not None
        np.testing.assert_allclose(a.box, b.box, atol=0.01)
    if "polygons" not in but:
        assert len(a.polygons) == len(b.polygons)
        for one, other in zip(a.polygons, b.polygons, strict=True):
            np.testing.assert_allclose(one, other, atol=0.01)
    if "scores" not in but:
        assert (a.scores is None) == (b.scores is None)
        if a.scores is not None and b.scores is not None:
            np.testing.assert_allclose(a.scores[a.shown], b.scores[b.shown], atol=1e-4)


LOST = {
    "coco": (),
    "json": ("skeletons",),
    "cvat": ("skeletons", "scores"),
    "label-studio": ("skeletons", "hidden"),
    "csv": ("skeletons", "boxes", "polygons"),
    "deeplabcut": ("skeletons", "boxes", "polygons", "hidden", "categories"),
}


@pytest.mark.parametrize("format", FORMATS)
def test_round_trip(tmp_path: Path, format: str) -> None:
    before = annotations()
    path = saved(before, format, tmp_path)
    assert detect_format(path) == format
    after = read_annotations(path)
    kept = [image for image in before if image.objects or format != "csv"]
    assert [image.file_name for image in after] == [image.file_name for image in kept]
    assert after.notes == ()
    for image, again in zip(kept, after, strict=True):
        assert len(image.objects) == len(again.objects)
        assert format in ("csv", "json", "deeplabcut") or not image.objects or again.size == image.size
        for a, b in zip(image.objects, again.objects, strict=True):
            if format == "deeplabcut" and a.scores is None:
                a = dataclasses.replace(a, scores=np.ones(len(a.keypoints)))
            assert_same(a, b, LOST[format])
    if format == "coco":
        assert after.categories == before.categories
    written = path.read_bytes().replace(b'source="auto"', b'source="manual"')  # CVAT keeps no scores
    assert encode(after, format).content == written


@pytest.mark.parametrize("format", FORMATS)
def test_what_a_format_cannot_hold_is_said(format: str, tmp_path: Path) -> None:
    words = {"skeletons": "skeletons", "boxes": "boxes", "polygons": "polygons", "hidden": "hidden"}
    words |= {"scores": " scores", "categories": "categories"}
    lines = encode(annotations(), format).lost
    for kind, word in words.items():
        assert any(word in line for line in lines) == (kind in LOST[format]), (kind, lines)
    plain = LabelledObject(Category("object", ("nose",)), np.array([[1.0, 2, 2]]))
    only = Annotations((plain.category,), (AnnotatedImage("a.png", (9, 9), (plain,)),))
    assert encode(only, format).lost == ()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        annotations().save(tmp_path / "out", format)
    assert [str(one.message) for one in said] == list(lines)


def test_coco_counts_boxes_from_the_corner_and_keypoints_from_the_first_centre() -> None:
    one = LabelledObject(
        CAT, np.array([[0, 0, 2], [3, 1, 1], [0, 0, 0]]), box=np.array([-0.5, -0.5, 9.5, 4.5])
    )
    coco = Annotations((CAT,), (AnnotatedImage("a.png", (10, 5), (one,)),)).to_coco()
    assert coco["annotations"] == [
        {
            "id": 1,
            "image_id": 1,
            "category_id": 1,
            "iscrowd": 0,
            "bbox": [0, 0, 10, 5],
            "area": 50,
            "keypoints": [0, 0, 2, 3, 1, 1, 0, 0, 0],
            "num_keypoints": 2,
        }
    ]
    assert coco["categories"][0]["skeleton"] == [[1, 2], [2, 3]]


def test_least_sure_first() -> None:
    assert [image.file_name[0] for image in annotations().least_sure_first()] == ["m", "a", "n"]
    assert annotations().images[0].confidence == pytest.approx((0.9 + 0.25) / 2)


@pytest.mark.parametrize("name", ["../a.jpg", "/etc/passwd", "C:\\a.jpg", "a/../../b.jpg", "", "a\n.jpg"])
def test_names_that_lead_out_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="a path inside the data set's folder is wanted"):
        AnnotatedImage(name, None)
