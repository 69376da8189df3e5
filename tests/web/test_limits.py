"""What is too much, too slow, or nonsense gets a sentence; nothing gets a traceback."""

from __future__ import annotations

import json
import socket

import pytest
from benchmarks.web_client import Answer, Client

import dhpf
from dhpf.web.limits import Limits
from tests.test_bad_images import FILES
from tests.web.conftest import Given, Serve
from tests.web.test_routes import png


def refused(answer: Answer, status: int, complaint: str) -> None:
    assert answer.status == status, answer.body
    assert answer.headers["Content-Type"] == "application/json"
    assert list(answer.json) == ["error"]
    assert complaint in answer.json["error"]
    assert "\n" not in answer.json["error"] and "Traceback" not in answer.json["error"]


@pytest.fixture(scope="module")
def matched(usual_page: str) -> tuple[Client, str]:
    client = Client(usual_page)
    return client, client.matched_sample("cheetahs")


@pytest.mark.parametrize("name", FILES)
def test_bad_files(matched: tuple[Client, str], name: str) -> None:
    data, complaint = FILES[name]
    answer = Client(f"http://{matched[0].host}").upload("source", data, name)
    refused(answer, 400, complaint)
    assert answer.json["error"].startswith(name)
    assert answer.headers["Set-Cookie"] is None


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "wanted a JSON object"),
        (b"[]", "wanted a JSON object"),
        (b"{", "wanted a JSON object"),
        (b"[" * 5000, "wanted a JSON object"),
        (b"\xff\xfe", "wanted a JSON object"),
        ({}, "wanted 'points', a list of [x, y] pairs"),
        ({"points": "1"}, "wanted 'points'"),
        ({"points": {"0": [1, 2]}}, "wanted 'points'"),
        ({"points": [1, 2]}, "point 1 is 1; wanted two finite numbers"),
        ({"points": [[1, 2], [3]]}, "point 2 is [3]; wanted"),
        ({"points": [[1, 2, 3]]}, "point 1 is [1, 2, 3]; wanted"),
        ({"points": [[1, "2"]]}, "point 1 is [1, '2']; wanted"),
        ({"points": [[True, False]]}, "point 1 is [True, False]; wanted"),
        ({"points": [[None, None]]}, "point 1 is [None, None]; wanted"),
        ({"points": [[1, float("nan")]]}, "point 1 is (1.0, nan); coordinates must be finite"),
        ({"points": [[float("inf"), 1]]}, "coordinates must be finite"),
        (b'{"points": [[1e999, 1]]}', "coordinates must be finite"),
        (f'{{"points": [[1{"0" * 400}, 1]]}}'.encode(), "points must be numbers"),
        ({"points": [[-1, 5]]}, "point 1 at (-1, 5) lies outside the source photo of 256 x 256 pixels"),
        ({"points": [[5, 5], [5, 257]]}, "point 2 at (5, 257) lies outside"),
        ({"points": [[1, 1]] * 201}, "201 points are too many: at most 200"),
    ],
    ids=str,
)
def test_bad_points(matched: tuple[Client, str], content: object, complaint: str) -> None:
    client, where = matched
    refused(client.send("POST", f"{where}/points", content), 400, complaint)
    if isinstance(content, dict):
        refused(client.send("POST", f"{where}/picture", {"view": "heat", **content}), 400, complaint)


def test_unknown_names(matched: tuple[Client, str]) -> None:
    client, where = matched
    refused(client.send("POST", f"{where}/picture", {"view": "wrap"}), 400, "did you mean 'warp'?")
    refused(client.send("POST", f"{where}/picture", {"view": ["x"]}), 400, "unknown view")
    refused(client.send("POST", "/api/sample", {"pair": "../cats"}), 400, "no sample pair '../cats'")
    refused(client.send("POST", "/api/sample", {"pair": []}), 400, "no sample pair")
    refused(client.upload("middle", png(60, 40)), 404, "source and target")
    refused(client.send("POST", "/api/match/none/points", {"points": []}), 409, "no longer kept")
    photos = Client(f"http://{client.host}")
    sample = photos.sample("cheetahs")
    refused(photos.match(sample, model="hpf-resnet5"), 400, "did you mean 'hpf-resnet50'?")
    refused(photos.match(sample, model=7), 400, "unknown model '7'")
    refused(photos.match(sample, model="/etc/passwd"), 400, "unknown model '/etc/passwd'")
    refused(photos.send("POST", "/api/match", {"source": None, "target": None}), 409, "choose both again")


def test_one_photo_is_not_matched_with_nothing(client: Client) -> None:
    photo = client.upload("source", png(60, 40)).json
    refused(client.match(photo), 409, "choose both again")


def test_uploads_are_bounded(serve: Serve) -> None:
    limits = Limits(upload_bytes=20_000, json_bytes=300)
    client = Client(serve(limits=limits))
    refused(client.upload("source", bytes(20_001)), 413, "too large: at most 19.5 kB")
    refused(client.upload("source", bytes(8 * 2**20)), 413, "too large")  # the rest is read and forgotten
    refused(client.send("POST", "/api/sample", {"pair": "x" * 300}), 413, "too large: at most 0.293 kB")
    assert client.upload("source", png(60, 40)).status == 200
    # Without an announced length, too.
    pieces = b"".join(b"%x\r\n%s\r\n" % (5000, bytes(5000)) for _ in range(5)) + b"0\r\n\r\n"
    head = f"PUT /api/photos/source HTTP/1.1\r\nHost: {client.host}\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert b"413" in exchange(client, head.encode() + pieces).split(b"\r\n")[0]


def test_slow_senders_give_their_place_back(serve: Serve) -> None:
    client = Client(serve(limits=Limits(body_seconds=0.3, jobs=1)))
    head = f"PUT /api/photos/source HTTP/1.1\r\nHost: {client.host}\r\nContent-Length: 1000\r\n\r\nabc"
    answer = exchange(client, head.encode())
    assert b"408" in answer.split(b"\r\n")[0] and b'"sending took too long; try again"' in answer
    assert client.upload("source", png(60, 40)).status == 200


def exchange(client: Client, sent: bytes) -> bytes:
    """Send bytes as they are; the answer, an error, ends with a brace."""
    host, port = client.host.split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(sent)
        received = b""
        while not received.endswith(b"}"):
            received += connection.recv(65536)
        return received


def test_what_fails_inside_is_not_shown(serve: Serve, quick: dhpf.Matcher) -> None:
    class Broken(Given):
        def matcher(self, name: str) -> dhpf.Matcher:
            raise RuntimeError("secret")

    client = Client(serve(models=Broken(quick)))
    answer = client.match(client.sample("cats"))
    refused(answer, 500, "something went wrong here")
    assert b"secret" not in answer.body
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert json.loads(client.send("GET", "/api/setup").body)["samples"]
