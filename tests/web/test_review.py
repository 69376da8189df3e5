"""The state of a review: what is changed, what is on the disc, and what is never touched."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dhpf.annotate.annotations import AnnotatedImage, Annotations, LabelledObject
from dhpf.annotate.photos import Reference
from dhpf.errors import InputError
from dhpf.web.review import ChangedMeanwhileError, Review
from tests.conftest import texture
from tests.web.review_files import CAT, SIZE, one, write_review

A, B, C = range(3)  # the photos, in the file's order

Begin = Callable[..., Review]


@pytest.fixture
def begin() -> Iterator[Begin]:
    """Open reviews, which are closed in the end."""
    with ExitStack() as stack:

        def start(*given: Any, **more: Any) -> Review:
            return stack.enter_context(closing(Review(*given, **more)))

        yield start


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return write_review(tmp_path)


def points(annotations: Annotations, index: int) -> list[list[float]]:
    rows: list[list[float]] = annotations.images[index].objects[0].keypoints.tolist()
    return rows


def test_changes_are_on_the_disc_and_the_input_is_not_touched(begin: Begin, files: tuple[Path, Path]) -> None:
    before = files[0].read_bytes()
    review = begin(*files)
    assert review.order() == [B, C, A]
    review.move(B, 0, 0, 1, [31.5, 9])
    review.move(B, 1, 0, 2, None)
    written = Annotations.read(files[0].with_name("annotations.reviewed.json"))
    assert points(written, B) == [[10, 12, 2], [31.5, 9, 2], [0, 0, 0]]
    scores = written.images[B].objects[0].scores
    assert scores is not None and scores.tolist() == [0.2, 1, 1]  # what a person says is sure
    review.confirm(B, 2)
    written = Annotations.read(review.path)
    assert written.images[B].objects[0].scores is None  # a person's
    assert [photo.status for photo in review.photos] == ["predicted", "reviewed", "predicted"]
    assert review.order() == [C, A, B]
    assert files[0].read_bytes() == before
    review.annotations.save(files[0].with_name("whole.json"))
    assert review.path.read_bytes() == files[0].with_name("whole.json").read_bytes()


@pytest.mark.parametrize("given", ["annotations.json", "annotations.reviewed.json"])
def test_a_review_goes_on_and_can_still_be_undone(begin: Begin, files: tuple[Path, Path], given: str) -> None:
    review = begin(*files)
    review.move(B, 0, 0, 0, [5, 6])
    review.move(C, 0, 0, 0, [7, 8])
    review.confirm(C, 1)
    review.undo()
    review.close()
    again = begin(files[0].with_name(given), files[1])
    assert (again.path, again.photos[C].status) == (review.path, "changed")
    assert points(again.annotations, B)[0] == [5, 6, 2] and points(again.annotations, C)[0] == [7, 8, 2]
    assert [again.undo(), again.undo()] == [C, B]
    assert points(again.annotations, B)[0] == points(again.annotations, C)[0] == [10, 12, 2]
    assert [photo.status for photo in again.photos] == ["predicted"] * 3
    with pytest.raises(InputError, match="nothing to undo"):
        again.undo()
    again.close()
    assert not list(files[0].parent.glob("*.reviewed.reviewed*"))


def test_half_a_line_of_a_killed_server_is_dropped(begin: Begin, files: tuple[Path, Path]) -> None:
    review = begin(*files)
    review.move(B, 0, 0, 0, [5, 6])
    review.close()
    log = Path(f"{review.path}.log")
    log.write_bytes(log.read_bytes() + b'{"photo": "c.png", "aft')
    again = begin(*files)
    again.move(C, 0, 0, 0, [7, 8])
    again.close()
    assert [json.loads(line)["photo"] for line in log.read_text().splitlines()] == ["b.png", "c.png"]


def test_a_full_disc_costs_the_change_and_nothing_else(begin: Begin, files: tuple[Path, Path]) -> None:
    review = begin(*files)
    review.move(B, 0, 0, 1, [31.5, 9])
    log, untouched = Path(f"{review.path}.log"), points(review.annotations, C)
    before, limits = log.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 20, limits[1]))  # half a line fits
    try:
        with pytest.raises(InputError, match="what came last is not kept"):
            review.move(C, 0, 0, 1, [1, 1])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert log.read_bytes() == before
    review.move(B, 1, 0, 1, [30, 8])
    review.close()
    resumed = begin(*files).annotations
    assert points(resumed, B)[1] == [30, 8, 2]
    assert points(resumed, C) == untouched


def test_a_kill_between_log_and_annotations_loses_nothing(begin: Begin, files: tuple[Path, Path]) -> None:
    review = begin(*files)
    before = review.path.read_bytes()
    review.move(B, 0, 0, 0, [5, 6])
    review.close()
    review.path.write_bytes(before)  # as if only the log had been written
    begin(*files).close()
    assert points(Annotations.read(review.path), B)[0] == [5, 6, 2]


def test_a_change_of_what_was_changed_meanwhile_is_refused(begin: Begin, files: tuple[Path, Path]) -> None:
    review = begin(*files)
    review.move(B, 0, 0, 0, [5, 6])
    with pytest.raises(ChangedMeanwhileError):
        review.move(B, 0, 0, 0, [50, 6])
    with pytest.raises(InputError, match="in use by another dhpf web"):
        begin(*files)
    assert points(review.annotations, B)[0] == [5, 6, 2]


def test_predictions_replace_only_what_nobody_touched(begin: Begin, files: tuple[Path, Path]) -> None:
    review = begin(*files)
    review.move(B, 0, 0, 0, [5, 6])
    new = one(0.7, [[1, 2, 2], [3, 4, 2], [5, 6, 2]])
    for index in (A, B, C):
        review.predict(index, 0, [new])
    review.save()
    review.close()
    written = Annotations.read(review.path)
    assert [points(written, index)[0] for index in (A, B, C)] == [[1, 2, 2], [5, 6, 2], [1, 2, 2]]
    again = begin(*files)
    assert points(again.annotations, A)[0] == [1, 2, 2]
    assert again.undo() == B  # predictions are no changes of a person


def test_references_are_given_ones_and_reviewed_photos(
    begin: Begin, files: tuple[Path, Path], tmp_path: Path
) -> None:
    path = tmp_path / "reference.png"
    Image.fromarray(texture(*SIZE, 9)).save(path)
    review = begin(*files, [Reference(path, SIZE, one())])
    assert [reference.path.name for reference in review.references()] == ["reference.png"]
    review.confirm(B, 0)
    assert [reference.path.name for reference in review.references()] == ["b.png", "reference.png"]
    with pytest.raises(InputError, match="references stay as they are"):
        review.confirm(3, 0)
    assert len(review.annotations) == 3  # references are not part of what is written


@pytest.mark.parametrize(
    ("box", "kept", "after"),
    [
        ([10, 11, 30, 30], False, [2, 11, 30, 30]),  # made of the keypoints: again
        ([0, 1, 40, 38], True, [0, 1, 40, 38]),  # given: stays
    ],
)
def test_boxes_follow_their_keypoints_unless_they_are_given(
    begin: Begin, files: tuple[Path, Path], box: list[float], kept: bool, after: list[float]
) -> None:
    found = LabelledObject(CAT, one().keypoints, np.array(box, float), scores=np.full(3, 0.5))
    Annotations((CAT,), (AnnotatedImage("a.png", SIZE, (found,)),)).save(files[0])
    review = begin(*files, inside_boxes=kept)
    review.move(0, 0, 0, 0, [2, 12])
    moved = review.photos[0].image.objects[0].box
    assert moved is not None
    np.testing.assert_allclose(moved, after, atol=0.02)


def test_a_wider_box_is_stretched_as_its_keypoints_are(begin: Begin, files: tuple[Path, Path]) -> None:
    """All keypoints 5 pixels to the right, one after the other: the box also, whatever the order."""
    found = LabelledObject(CAT, one().keypoints, np.array([4.0, 5, 34, 36]), scores=np.full(3, 0.5))
    Annotations((CAT,), (AnnotatedImage("a.png", SIZE, (found,)),)).save(files[0])
    review = begin(*files)
    for version, keypoint in enumerate((2, 0, 1)):
        x, y, _ = found.keypoints[keypoint]
        review.move(0, version, 0, keypoint, [x + 5, y])
    moved = review.photos[0].image.objects[0].box
    assert moved is not None
    np.testing.assert_allclose(moved, [9, 5, 39, 36], atol=0.02)


def test_files_that_cannot_be_reviewed(begin: Begin, files: tuple[Path, Path], tmp_path: Path) -> None:
    file, photos = files

    def refused(sentence: str) -> None:
        with pytest.raises(InputError, match=sentence):
            begin(file, photos)

    (file.parent / "annotations.reviewed.json").write_text("mine")
    refused("is there, but not of a review")
    assert (file.parent / "annotations.reviewed.json").read_text() == "mine"
    (file.parent / "annotations.reviewed.json").unlink()
    outside = tmp_path / "outside.png"
    (photos / "c.png").rename(outside)
    refused("its photo c.png is not in")
    (photos / "c.png").symlink_to(outside)
    refused("c.png is a link out of")
    (photos / "c.png").unlink()
    outside.rename(photos / "c.png")
    Annotations((CAT,), ()).save(file)
    refused("names no photos")
    file.write_text(
        file.read_text().replace('"images": []', '"images": [{"id": 1, "file_name": "../x.png"}]')
    )
    refused("a path inside the data set's folder is wanted")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "annotations.json",
        "photos",
    ]  # nothing written


def test_a_log_of_other_annotations_is_an_error_and_stays(begin: Begin, files: tuple[Path, Path]) -> None:
    review = begin(*files)
    review.move(B, 0, 0, 0, [5, 6])
    review.close()
    log = Path(f"{review.path}.log")
    for line in (b'{"undo": true}\n', b"words\n", b'{"photo": "b.png", "after": {"objects": 3}}\n', b"[]\n"):
        log.write_bytes(line * 2)
        with pytest.raises(InputError, match="line 1, does not fit the annotations; move"):
            begin(*files)
        assert log.read_bytes() == line * 2
