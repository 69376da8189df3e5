"""What the page of a review answers; bad and hostile requests are one sentence and change nothing."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.web_client import Client
from PIL import Image

import dhpf
from dhpf.annotate.annotations import Annotations
from dhpf.annotate.formats import FORMATS
from dhpf.web.review import Review
from tests.conftest import Ran
from tests.web.conftest import Given, served
from tests.web.review_files import SIZE, write_review

ENDINGS = {"cvat": "xml", "deeplabcut": "csv", "csv": "csv"}


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return write_review(tmp_path)


@pytest.fixture
def visitor(quick: dhpf.Matcher, files: tuple[Path, Path]) -> Iterator[Client]:
    with served(Given(quick), None, review=Review(*files)) as address:
        yield Client(address)


def test_a_photo_is_shown_moved_confirmed_and_taken_back(visitor: Client, files: tuple[Path, Path]) -> None:
    overview = visitor.send("GET", "/api/review").json
    assert (overview["order"], overview["status"]) == ([1, 2, 0], ["predicted"] * 3)
    assert overview["file"] == "annotations.reviewed.json"
    body = visitor.send("GET", "/api/review/photos/1/image").body
    with Image.open(io.BytesIO(body)) as shown, Image.open(files[1] / "b.png") as photo:
        seen, real = (np.asarray(each.convert("RGB"), float) for each in (shown, photo))
    assert np.abs(seen - real).mean() < 25  # JPEG of noise
    change = {"object": 0, "keypoint": 2, "at": [21.5, 3], "version": 0}
    photo = visitor.send("POST", "/api/review/photos/1/point", change).json
    assert (photo["status"], photo["objects"][0]["keypoints"][2]) == ("changed", [21.5, 3, 2])
    photo = visitor.send("POST", "/api/review/photos/1/confirm", {"version": photo["version"]}).json
    assert (photo["status"], photo["objects"][0]["scores"]) == ("reviewed", None)
    assert visitor.send("GET", "/api/review").json["references"] == [1]
    photo = visitor.send("POST", "/api/review/undo", {}).json
    assert (photo["index"], photo["status"], photo["objects"][0]["scores"]) == (1, "changed", [0.2, 0.2, 1])


@pytest.mark.parametrize("format", FORMATS)
def test_downloads_are_what_the_formats_write(
    visitor: Client, files: tuple[Path, Path], command: Callable[..., Ran], tmp_path: Path, format: str
) -> None:
    """And what ``dhpf convert`` writes of the file on the disc."""
    answer = visitor.send("GET", f"/api/review/export/{format}")
    ending = ENDINGS.get(format, "json")
    assert answer.headers["Content-Disposition"] == f'attachment; filename="annotations.reviewed.{ending}"'
    assert ("lines of skeletons" in answer.headers["Dhpf-Lost"]) == (format != "coco")
    path = tmp_path / f"export.{ending}"
    reviewed = files[0].with_name("annotations.reviewed.json")
    ran = command("convert", reviewed, "--out", path, "--format", format)
    assert (ran.code, ran.out) == (0, f"3 photos: {path}\n")
    assert [line.removeprefix("dhpf: note: ") for line in ran.err.splitlines()] == [
        line for line in answer.headers["Dhpf-Lost"].split("; ") if line
    ]
    assert path.read_bytes() == answer.body
    (found,) = (image.objects[0].keypoints for image in Annotations.read(path) if image.file_name == "b.png")
    np.testing.assert_allclose(found, [[10, 12, 2], [30, 11, 2], [20, 30, 2]], atol=0.01)


def test_the_rest_is_predicted_from_what_was_confirmed(
    visitor: Client, files: tuple[Path, Path], quick: dhpf.Matcher
) -> None:
    """The photo that a person touched stays; another one gets what ``dhpf annotate`` would give it."""
    answer = visitor.send("POST", "/api/review/predict", {})
    assert (answer.status, answer.json["error"][:30]) == (400, "there is nothing to predict fr")
    visitor.send("POST", "/api/review/photos/1/confirm", {"version": 0})
    moved = {"object": 0, "keypoint": 0, "at": [1, 2], "version": 0}
    visitor.send("POST", "/api/review/photos/2/point", moved)
    assert visitor.send("POST", "/api/review/predict", {}).json["total"] == 1
    until = time.monotonic() + 120
    while visitor.send("GET", "/api/review").json["predicting"] and time.monotonic() < until:
        time.sleep(0.05)
    match = quick.match(files[1] / "b.png", files[1] / "a.png", scores=False)
    expected = match.transfer([[10, 12], [30, 11], [20, 30]]).clip(-0.5, np.array(SIZE) - 0.5)
    found = visitor.send("GET", "/api/review/photos/0").json["objects"][0]["keypoints"]
    np.testing.assert_allclose(np.array(found)[:, :2], expected, atol=0.01)
    written = Annotations.read(files[0].with_name("annotations.reviewed.json"))
    np.testing.assert_allclose(written.images[0].objects[0].keypoints[:, :2], expected, atol=0.011)
    assert written.images[2].objects[0].keypoints[0].tolist() == [1, 2, 2]


POINT = {"object": 0, "keypoint": 0, "at": [3, 4], "version": 0}
BAD: list[tuple[str, str, object, int]] = [
    ("GET", "/api/review/photos/9", None, 404),
    ("GET", "/api/review/photos/-1", None, 404),
    ("GET", "/api/review/photos/1e3", None, 404),
    ("GET", "/api/review/photos/" + "9" * 5000, None, 404),
    ("GET", "/api/review/photos/%C2%B2", None, 404),  # a digit, but no number
    ("GET", "/api/review/photos/../../annotations.json", None, 404),
    ("GET", "/api/review/photos/..%2F..%2Fannotations.json/image", None, 404),
    ("GET", "/api/review/photos/%2Fetc%2Fpasswd/image", None, 404),
    ("GET", "/api/review/photos/a.png/image", None, 404),
    ("GET", "/photos/a.png", None, 404),
    ("GET", "/review/../annotations.json", None, 404),
    ("GET", "/api/review/export/pdf", None, 400),
    ("GET", "/api/review/export/..%2Fcoco", None, 404),
    ("POST", "/api/review", {}, 405),
    ("GET", "/api/review/undo", None, 405),
    ("POST", "/api/review/undo", {}, 400),
    ("POST", "/api/review/predict", {}, 400),
    ("POST", "/api/review/photos/0/point", b"words", 400),
    ("POST", "/api/review/photos/0/point", [1, 2], 400),
    ("POST", "/api/review/photos/0/point", {}, 400),
    ("POST", "/api/review/photos/0/point", POINT | {"object": 1}, 400),
    ("POST", "/api/review/photos/0/point", POINT | {"object": -1}, 400),
    ("POST", "/api/review/photos/0/point", POINT | {"object": True}, 400),
    ("POST", "/api/review/photos/0/point", POINT | {"keypoint": 3}, 400),
    ("POST", "/api/review/photos/0/point", POINT | {"keypoint": "0"}, 400),
    ("POST", "/api/review/photos/0/point", POINT | {"at": [60.5, 4]}, 400),
    ("POST", "/api/review/photos/0/point", POINT | {"at": [1]}, 400),
    ("POST", "/api/review/photos/0/point", POINT | {"at": [1, 2, 3]}, 400),
    ("POST", "/api/review/photos/0/point", POINT | {"at": [10**400, 2]}, 400),
    ("POST", "/api/review/photos/0/point", POINT | {"at": "1,2"}, 400),
    ("POST", "/api/review/photos/0/point", POINT | {"at": [True, 2]}, 400),
    ("POST", "/api/review/photos/0/point", b'{"object":0,"keypoint":0,"at":[NaN,1],"version":0}', 400),
    ("POST", "/api/review/photos/0/point", b'{"object":0,"keypoint":0,"at":[1e999,1],"version":0}', 400),
    ("POST", "/api/review/photos/0/point", POINT | {"version": 7}, 409),
    ("POST", "/api/review/photos/0/point", {**POINT, "version": None}, 400),
    ("POST", "/api/review/photos/0/point", b" " * 100_000, 413),
    ("POST", "/api/review/photos/0/confirm", {}, 400),
    ("POST", "/api/review/photos/0/confirm", {"version": 3}, 409),
    ("POST", "/api/review/photos/7/confirm", {"version": 0}, 404),
]


def test_bad_requests_are_a_sentence_and_change_nothing(visitor: Client, files: tuple[Path, Path]) -> None:
    def on_disc() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in files[0].parent.iterdir() if path.is_file()}

    before = on_disc()
    for method, path, content, status in BAD:
        answer = visitor.send(method, path, content)
        error: Any = answer.json["error"]
        assert (answer.status, error.count("\n")) == (status, 0), (method, path[:80], content, error)
        assert str(files[0].parent) not in error
    for foreign in ({"Origin": "http://elsewhere.example"}, {"Host": "elsewhere.example"}):
        assert visitor.send("POST", "/api/review/photos/0/point", POINT, foreign).status == 403
    assert visitor.send("GET", "/api/review", None, {"Host": "elsewhere.example"}).status == 403
    assert on_disc() == before


def test_photos_that_cannot_be_read_are_a_sentence(visitor: Client, files: tuple[Path, Path]) -> None:
    (files[1] / "a.png").write_text("words")
    with (files[1] / "b.png").open("wb") as huge:
        huge.truncate(10**10)
    (files[1] / "c.png").unlink()
    for index, said in ((0, "not an image"), (1, "too large"), (2, "no such image")):
        for what in ("", "/image"):
            answer = visitor.send("GET", f"/api/review/photos/{index}{what}")
            assert answer.status == 400 and said in answer.json["error"]


def test_without_annotations_there_is_no_review(client: Client) -> None:
    assert not client.send("GET", "/api/setup").json["review"]
    for path in ("/review", "/review.js", "/api/review", "/api/review/photos/0/image"):
        assert client.send("GET", path).status == 404
