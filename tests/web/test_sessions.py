"""What is kept: few sessions, not for long, not too much."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.web_client import Client
from PIL import Image

import dhpf
from dhpf.grid import resize_points
from dhpf.web.limits import Limits
from dhpf.web.sessions import VIEW_SIDE, Result, Sessions, prepare
from tests.conftest import texture
from tests.web.conftest import Serve


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_least_recently_used_is_dropped() -> None:
    sessions = Sessions(Limits(sessions=2), Clock())
    (first, _), (second, _) = sessions.start("here"), sessions.start("here")
    assert sessions.find(first)
    third, _ = sessions.start("here")
    assert sessions.find(second) is None
    assert sessions.find(first) and sessions.find(third)
    assert len({first, second, third}) == 3


def test_old_sessions_are_dropped() -> None:
    clock = Clock()
    sessions = Sessions(Limits(session_seconds=60), clock)
    (first, _), (second, _) = sessions.start("here"), sessions.start("here")
    clock.now = 50
    assert sessions.find(first)
    clock.now = 100
    sessions.sweep()
    assert len(sessions) == 1
    assert sessions.find(first) and sessions.find(second) is None
    clock.now = 161
    assert sessions.find(first) is None and len(sessions) == 0
    assert sessions.find(None) is None


def test_memory_is_bounded_by_dropping_others() -> None:
    photo = prepare("a", Image.fromarray(texture(100, 100)))
    assert photo.nbytes == 40_000 + len(photo.jpeg)
    sessions = Sessions(Limits(kept_bytes=5 * photo.nbytes // 2), Clock())
    keys = []
    for _ in range(3):
        key, session = sessions.start("here")
        session.put({"source": photo})
        sessions.sweep()
        keys.append(key)
    assert [sessions.find(key) is not None for key in keys] == [False, True, True]
    assert sessions.nbytes == 2 * photo.nbytes
    _, alone = sessions.start("here")
    for side in ("source", "target"):
        alone.put({side: prepare("b", Image.fromarray(texture(300, 300)))})
    sessions.sweep()
    assert len(sessions) == 1  # larger than allowed, but somebody's


def test_who_holds_most_loses_first() -> None:
    """A client with many sessions cannot displace the only one of another."""
    sessions = Sessions(Limits(sessions=3), Clock())
    quiet, _ = sessions.start("quiet")
    keys = [sessions.start("loud")[0] for _ in range(5)]
    assert sessions.find(quiet)
    assert [sessions.find(key) is not None for key in keys] == [False] * 3 + [True] * 2
    photo = prepare("a", Image.fromarray(texture(100, 100)))
    sessions = Sessions(Limits(kept_bytes=7 * photo.nbytes // 2), Clock())
    (few, small), (_, large) = sessions.start("quiet"), sessions.start("loud")
    small.put({"source": photo})
    large.put({"source": photo, "target": photo})
    late, session = sessions.start("late")
    session.put({"source": photo})
    assert sessions.find(few) and sessions.find(late) and len(sessions) == 2
    assert large.photos == {}  # nobody who still has it keeps the photos


def test_a_session_counts_what_its_match_keeps(quick: dhpf.Matcher) -> None:
    source, target = (
        prepare(name, Image.fromarray(texture(2000, 40, seed))) for seed, name in enumerate("ab")
    )
    assert source.view.size == (VIEW_SIDE, 26)
    assert source.nbytes == 4 * (2000 * 40 + VIEW_SIDE * 26) + len(source.jpeg)
    result = Result.of(quick.match(source.original, target.original), source, target, 17)
    assert result.match.match_scores is not None
    kept = result.match.cells.nbytes + result.match.match_scores.nbytes
    assert result.nbytes == kept  # not twice, for the smaller photos
    points = np.array([[1999, 39], [0.0, 0], [1000, 13]])
    small, large = (VIEW_SIDE, 26), (2000, 40)
    smaller = resize_points(result.view.transfer(resize_points(points, large, small)), small, large)
    np.testing.assert_allclose(smaller, result.match.transfer(points), atol=1e-9)
    before = result.nbytes
    assert result.view.flow.nbytes == result.nbytes - before  # what is computed later, too


@pytest.mark.parametrize("limits", [Limits(sessions=1), Limits(kept_bytes=1)])
def test_a_visitor_too_many_displaces_the_first(serve: Serve, limits: Limits) -> None:
    address = serve(limits=limits)
    first, second = Client(address), Client(address)
    where = first.matched_sample("cats")
    second.sample("cheetahs")
    answer = first.send("POST", f"{where}/points", {"points": []})
    assert answer.status == 404
    assert (
        answer.json["error"]
        == "no photos are kept here (unused ones are forgotten after 60 minutes); choose two"
    )
    assert first.matched_sample("cats")
