"""Every address of the page with everything that can be sent wrongly: its status, and one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from benchmarks.web_client import Answer, Client

import dhpf
from tests.test_bad_images import FILES, PHONES
from tests.web.conftest import Given, served


class Asked(NamedTuple):
    """A request with something wrong in it. MATCH is the match of its session."""

    method: str
    path: str
    status: int
    content: Any = None
    headers: dict[str, str] = {}  # noqa: RUF012
    session: bool = True  # of somebody who has matched two photos

    def __str__(self) -> str:
        return f"{self.method} {self.path[:40]} {str(self.content)[:30]} {self.headers} {self.session}"


GETS = ("/api/setup", "/api/samples/cats", "/api/match/MATCH/suggestions", "/api/match/MATCH/warped", "/")
POSTS = (
    "/api/sample",
    "/api/match",
    "/api/match/MATCH/points",
    "/api/match/MATCH/heat",
    "/api/match/MATCH/picture",
)
OF_A_MATCH = ("GET suggestions", "GET warped", "POST points", "POST heat", "POST picture")
NO_OBJECTS = (
    b"",
    b"{",
    b"[]",
    b"null",
    b"3",
    b'"text"',
    b"[" * 9000,
    b"\xff\xfe{}",
    b'{"pair": "\\ud800"}',
    b'{"a":' + b"9" * 5000 + b"}",
    b"{}" + bytes(3),
)
NO_POINTS: tuple[Any, ...] = (
    None,
    "1",
    3,
    {},
    [1, 2],
    [[1]],
    [[1, 2, 3]],
    [["a", "b"]],
    [[None, 1]],
    [[True, 1]],
    [[-5, 1]],
    [[1e9, 1]],
    [[float("nan"), 1]],
    [[float("inf"), 1]],
    [[10**400, 1]],
    [[1, 1]] * 201,
)
NO_MATCHED = (  # of one point
    "a",
    3,
    {},
    [],
    [[1, 1]],
    [[1, 1, 2]],
    [[1, 1, -0.1]],
    [[1, 1, None]],
    [[1e9, 1, 1]],
    [[float("nan"), 1, 1]],
    [[10**400, 1, 1]],
    [[1, 1, 1]] * 2,
)
NO_MATCHES = ("other", "MATCH.", "%2e%2e", "x" * 3000, "%00", "%ff", "'--")
OUT = (
    "/../pyproject.toml",
    "/%2e%2e/app.py",
    "/static/page.js",
    "//etc/passwd",
    "/page.js/..",
    "/api",
    "/api/",
    "/api/photos",
    "/page.py",
    "/index.html%00",
)


def table() -> list[Asked]:
    """All requests."""
    asked = [Asked("POST", path, 400, body) for path in POSTS for body in NO_OBJECTS]
    asked += [Asked("POST", path, 413, b" " * 100_000) for path in POSTS]
    for what in ("points", "heat"):
        asked += [Asked("POST", f"/api/match/MATCH/{what}", 400, {"points": points}) for points in NO_POINTS]
    picture = "/api/match/MATCH/picture"
    asked += [Asked("POST", picture, 400, {"view": "lines", "points": points}) for points in NO_POINTS]
    asked += [Asked("POST", picture, 400, {"view": view}) for view in ("", None, 3, [], "magic", "x" * 5000)]
    one = {"view": "lines", "points": [[1, 1]]}
    asked += [Asked("POST", picture, 400, {**one, "matches": matches}) for matches in NO_MATCHED]
    asked += [Asked("POST", picture, 400, {**one, "names": names}) for names in ("a", [], [3], ["a", "b"])]
    asked.append(Asked("POST", "/api/match/MATCH/heat", 400, {"points": [[1, 1], [2, 2]]}))
    for method, what in map(str.split, OF_A_MATCH):
        content = {"view": "lines", "points": [[1, 1]]} if method == "POST" else None
        asked += [Asked(method, f"/api/match/{match}/{what}", 409, content) for match in NO_MATCHES]
        asked.append(Asked(method, f"/api/match/MATCH/{what}", 404, content, session=False))
    asked += [
        Asked("POST", "/api/match", 409, ids)
        for ids in ({}, {"source": 1, "target": [2]}, {"source": "a", "target": "b"})
    ]
    asked += [
        Asked("POST", "/api/match", 400, {"model": model}) for model in ("magic", "", None, 3, "../head")
    ]
    asked += [Asked("POST", "/api/sample", 400, {"pair": pair}) for pair in ("dogs", "", None, 3, "../cats")]
    asked += [Asked("GET", f"/api/samples/{pair}", 400) for pair in ("dogs", "%2e%2e", "%00")]
    for side in ("source", "target"):
        asked += [
            Asked("PUT", f"/api/photos/{side}?name={n}", 400, c) for n, (c, _) in {**FILES, **PHONES}.items()
        ]
        asked.append(Asked("PUT", f"/api/photos/{side}", 413, headers={"Content-Length": "99999999999"}))
    asked += [Asked("PUT", f"/api/photos/{side}", 404, b"x") for side in ("left", "%00", "x" * 3000)]
    asked += [Asked("GET", f"/api/photos/{photo}", 404) for photo in ("other", "%2e%2e", "%ff")]
    asked += [Asked("GET", path, 404) for path in OUT]
    asked += [Asked("DELETE", path, 405) for path in (*GETS, *POSTS)]
    asked += [Asked("PUT", path, 405, {}) for path in POSTS] + [Asked("POST", path, 405, {}) for path in GETS]
    asked += [
        Asked("GET", path, 403, headers={"Host": host})
        for path in GETS
        for host in ("evil.example", "127.0.0.1.evil", "")
    ]
    asked += [
        Asked("POST", path, 403, {}, {"Origin": origin})
        for path in POSTS
        for origin in ("http://evil.example", "null", "http://[")
    ]
    return asked


ASKED = table()


class Visited(NamedTuple):
    """A page, and somebody who has matched two photos there."""

    address: str
    client: Client
    match: str


@pytest.fixture(scope="module")
def visited(quick: dhpf.Matcher) -> Iterator[Visited]:
    with served(Given(quick), None) as address:
        client = Client(address)
        yield Visited(address, client, client.matched_sample("cats").rpartition("/")[2])


def test_there_are_enough_of_them() -> None:
    assert len(ASKED) >= 200


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_refused(asked: Asked, visited: Visited, capfd: pytest.CaptureFixture[str]) -> None:
    client = visited.client if asked.session else Client(visited.address)
    cookie = client.cookie
    answer = client.send(
        asked.method, asked.path.replace("MATCH", visited.match), asked.content, asked.headers
    )
    assert answer.status == asked.status, answer.body
    assert list(answer.json) == ["error"]
    assert "\n" not in answer.json["error"]
    assert 0 < len(answer.json["error"]) < 1000
    assert client.cookie == cookie
    assert capfd.readouterr().err == ""


def test_the_photos_are_still_there(visited: Visited) -> None:
    """After all of that."""

    def points() -> Answer:
        return visited.client.send("POST", f"/api/match/{visited.match}/points", {"points": [[20, 20]]})

    assert points().status == 200
    assert points().json == points().json
