"""The page under 500 requests of several visitors: right answers throughout, and memory that does not grow.

    python -m benchmarks.web_soak

A real ``dhpf web`` on loopback. Every answer is checked against a matcher of this process: points, heat maps,
pictures; refusals of bad files, bad points and other visitors' matches; and that the busy ask again. All the
while, visitors leave connections open, some with half an upload.
"""

from __future__ import annotations

import io
import random
import socket
import statistics
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import dhpf
from benchmarks.record import save_result
from benchmarks.web_client import Answer, Client
from benchmarks.web_process import running_server
from dhpf.samples import PAIRS

VISITORS = 12  # more than the server's queue has places
CLIENTS = 4  # addresses that they share
STYLES = ("lines", "warp", "flow", "heat")
WARM_UP, REQUESTS = 200, 500
DEADLINE = 600.0  # seconds
GROWTH = 48.0  # megabytes that may come and go


@dataclass
class Record:
    """What was asked and how it went, for all visitors."""

    asked: Counter[str] = field(default_factory=Counter)
    click_ms: list[float] = field(default_factory=list)
    heat_ms: list[float] = field(default_factory=list)
    busy: int = 0
    matches: list[str] = field(default_factory=list)  # addresses, the latest last
    lock: threading.Lock = field(default_factory=threading.Lock)


class Visitor:
    """Does one thing after another, as chance has it, and checks every answer."""

    def __init__(self, address: str, seed: int, expected: dict[str, dhpf.Match], record: Record) -> None:
        self.client = Client(address, f"127.0.0.{2 + seed % CLIENTS}")
        self.left_open: deque[socket.socket] = deque(maxlen=8)
        self.chance = random.Random(seed)
        self.expected = expected
        self.record = record
        self.pair, self.where = "", ""

    def visit(self, goes_on: Callable[[], bool]) -> None:
        """Until it is enough."""
        doings = [self.click] * 10 + [self.heat] * 4 + [self.sample, self.uploads, self.picture]
        doings += [self.bad_file, self.bad_points, self.foreign, self.dawdle, self.dawdle]
        while goes_on():
            (self.chance.choice(doings) if self.where else self.sample)()

    def ask(self, kind: str, send: Callable[[], Answer], status: int = 200) -> Answer:
        """Send a request, again while the server is busy; its answer must have that status."""
        while True:
            answer = send()
            with self.record.lock:
                self.record.asked[kind] += 1
                self.record.busy += answer.status == 503
            if answer.status != 503:
                break
            time.sleep(float(answer.headers["Retry-After"]) * self.chance.uniform(0.2, 1))
        if answer.status != status:
            raise AssertionError(f"{kind}: {answer.status} instead of {status}: {answer.body[:200]!r}")
        if status != 200 and list(answer.json) != ["error"]:
            raise AssertionError(f"{kind}: no sentence: {answer.body[:200]!r}")
        return answer

    def sample(self) -> None:
        self.pair = self.chance.choice(list(PAIRS))
        taken = self.ask("sample", lambda: self.client.send("POST", "/api/sample", {"pair": self.pair}))
        self.match(taken.json)

    def uploads(self) -> None:
        """A sample pair the other way round, as files."""
        name = self.chance.choice(list(PAIRS))
        self.pair = f"{name} reversed"
        photos: dict[str, Any] = {}
        for side, photo in zip(("target", "source"), PAIRS[name], strict=True):
            data = dhpf.sample(photo).read_bytes()
            photos |= self.ask("upload", partial(self.client.upload, side, data)).json
        self.match(photos)

    def match(self, photos: dict[str, Any]) -> None:
        answer = self.ask("match", lambda: self.client.match(photos)).json
        self.where = f"/api/match/{answer['match']}"
        same(answer.get("layers"), self.expected[self.pair].layers)
        with self.record.lock:
            self.record.matches.append(self.where)

    def points(self, count: int) -> list[list[float]]:
        width, height = self.expected[self.pair].source.size
        return [[self.chance.uniform(0, width), self.chance.uniform(0, height)] for _ in range(count)]

    def click(self) -> None:
        points = self.points(self.chance.randint(1, 12))
        answer = self.ask("click", lambda: self.post("points", points))
        self.record.click_ms.append(answer.server_ms)
        wanted = self.expected[self.pair].to_dict(points)
        same(answer.json["source_points"], wanted["source_points"])
        same(answer.json["target_points"], wanted["target_points"], 0.01)
        same(answer.json["confidence"], wanted["confidence"], 1e-4)

    def heat(self) -> None:
        (point,) = self.points(1)
        answer = self.ask("heat", lambda: self.post("heat", [point]))
        self.record.heat_ms.append(answer.server_ms)
        same(answer.json["scores"], self.expected[self.pair].scores(point), 1e-3)

    def picture(self, style: str = "") -> None:
        style, points = style or self.chance.choice(STYLES), self.points(1)
        content = {"view": style, "points": points}
        answer = self.ask("picture", lambda: self.client.send("POST", f"{self.where}/picture", content))
        given = points if style in ("lines", "heat") else None
        with Image.open(io.BytesIO(answer.body)) as drawn:
            wanted = self.expected[self.pair].draw(given, style=style)
            if np.abs(np.asarray(drawn, float) - np.asarray(wanted, float)).mean() > 0.1:
                raise AssertionError(f"another picture than match.draw(style='{style}')")

    def bad_file(self) -> None:
        data = dhpf.sample("lion").read_bytes()[: self.chance.randint(0, 9000)]
        stranger = Client(f"http://{self.client.host}")  # one without a session must not get one by it
        self.ask("bad file", lambda: stranger.upload("source", data), 400)
        if stranger.cookie:
            raise AssertionError("a bad file opened a session")

    def bad_points(self) -> None:
        bad = self.chance.choice([[[-1, 5]], [[float("nan"), 1]], [[1, 2, 3]], "none", [[1e9, 1]]])
        self.ask("bad points", lambda: self.post("points", bad), 400)

    def foreign(self) -> None:
        """Another visitor's match must not be seen."""
        with self.record.lock:
            others = [where for where in self.record.matches[-VISITORS:] if where != self.where]
        if others:
            content: dict[str, Any] = {"points": []}
            where = self.chance.choice(others)
            self.ask("foreign match", lambda: self.client.send("POST", f"{where}/points", content), 409)

    def dawdle(self) -> None:
        """Begin something, and leave it."""
        head = f"PUT /api/photos/source HTTP/1.1\r\nHost: {self.client.host}\r\nContent-Length: 9\r\n\r\n"
        begun = self.chance.choice(["", head[:9], f"{head}abc"])
        self.left_open.append(self.client.connect(begun.encode()))

    def post(self, what: str, points: object) -> Answer:
        return self.client.send("POST", f"{self.where}/{what}", {"points": points})


def same(given: Any, wanted: Any, tolerance: float = 0.0) -> None:
    """Raise if an answer is wrong."""
    np.testing.assert_allclose(np.asarray(given, float), np.asarray(wanted, float), rtol=0, atol=tolerance)


def resident_megabytes(process: int) -> float:
    """Memory of the server now."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * 4096 / 2**20


def expected_matches() -> dict[str, dhpf.Match]:
    """The sample pairs, both ways round, matched in this process."""
    matcher, found = dhpf.load(), {}
    for name, (source, target) in PAIRS.items():
        found[name] = matcher.match(dhpf.sample(source), dhpf.sample(target))
        found[f"{name} reversed"] = matcher.match(dhpf.sample(target), dhpf.sample(source))
    return found


def soak(visitors: list[Visitor], record: Record, until: int, deadline: float) -> None:
    """Let all visitors do things at once until so many requests were answered."""

    def goes_on() -> bool:
        return record.asked.total() < until and time.monotonic() < deadline

    with ThreadPoolExecutor(len(visitors)) as threads:
        for done in [threads.submit(visitor.visit, goes_on) for visitor in visitors]:
            done.result()
    if record.asked.total() < until:
        raise AssertionError(f"only {record.asked.total()} requests in {DEADLINE:.0f} seconds")


def spread(times: list[float]) -> dict[str, float]:
    """Of times in milliseconds."""
    times = sorted(times)
    share = {"median": statistics.median(times), "95 %": times[int(0.95 * len(times))], "largest": times[-1]}
    return {"count": len(times), **{name: round(value, 2) for name, value in share.items()}}


def main() -> None:
    """Warm up, soak, print, record."""
    expected, record, started = expected_matches(), Record(), time.monotonic()
    with running_server() as server:
        visitors = [Visitor(server.address, seed, expected, record) for seed in range(VISITORS)]
        visitors[0].sample()
        for style in STYLES:  # each loads libraries when it is first asked for
            visitors[0].picture(style)
        soak(visitors, record, WARM_UP, started + DEADLINE)
        warm_up = record.asked.total()
        record.click_ms.clear()
        record.heat_ms.clear()
        memory = [round(resident_megabytes(server.process.pid), 1)]
        for part in range(1, 6):
            soak(visitors, record, warm_up + REQUESTS * part // 5, started + DEADLINE)
            memory.append(round(resident_megabytes(server.process.pid), 1))
    result = {
        "visitors": VISITORS,
        "addresses of theirs": CLIENTS,
        "requests": record.asked.total() - warm_up,
        "requests of the warm-up": warm_up,
        "all requests by kind": dict(sorted(record.asked.items())),
        "answered busy, asked again": record.busy,
        "wrong answers": 0,  # the first one ends the run
        "seconds": round(time.monotonic() - started, 1),
        "server's memory after the warm-up and every 100 requests, MB": memory,
        "clicks, server's ms": spread(record.click_ms),
        "heat maps, server's ms": spread(record.heat_ms),
    }
    print(result)
    if max(memory[1:]) > memory[0] + GROWTH:
        raise AssertionError(f"the server's memory grew: {memory} MB")
    save_result("web_soak", "python -m benchmarks.web_soak", result)


if __name__ == "__main__":
    main()
