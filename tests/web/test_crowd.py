"""Many, slow and vanishing clients: everybody else is still served, and nothing is held for long.

On Linux every address 127.x.y.z is this machine, so one test can be several clients.
"""

from __future__ import annotations

import io
import itertools
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np
import pytest
from benchmarks.web_client import Client
from benchmarks.web_process import running_server
from PIL import Image

import dhpf
from dhpf.web.addresses import client_at
from dhpf.web.limits import BusyError, Limits, Supply
from tests.web.conftest import Serve, Slow, served
from tests.web.test_limits import refused
from tests.web.test_routes import png

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="needs addresses beside 127.0.0.1"
)

HERE, NEIGHBOUR, STRANGER = "127.0.0.1", "127.0.0.2", "127.0.0.3"


@pytest.fixture
def crowd() -> Iterator[ExitStack]:
    """Connections to be closed in the end."""
    with ExitStack() as stack:
        yield stack


def put(client: Client, length: int, sent: bytes = b"") -> bytes:
    """The beginning of an upload."""
    head = f"PUT /api/photos/source HTTP/1.1\r\nHost: {client.host}\r\nContent-Length: {length}\r\n\r\n"
    return head.encode() + sent


def is_served(address: str, source: str) -> None:
    """A visitor with that address can do everything, at once."""
    client, started = Client(address, source), time.monotonic()
    photos = client.upload("source", png(60, 40)).json | client.upload("target", png(40, 60)).json
    where = f"/api/match/{client.match(photos).json['match']}"
    assert client.send("POST", f"{where}/points", {"points": [[1, 1]]}).status == 200
    assert time.monotonic() - started < 20  # far less than any of them may stay


@pytest.mark.parametrize("attacker", [HERE, NEIGHBOUR])
def test_idle_connections_lock_nobody_out(serve: Serve, crowd: ExitStack, attacker: str) -> None:
    address = serve()
    is_served(address, HERE)
    for begun in (b"", b"GET / HT") * 70:
        crowd.enter_context(Client(address, attacker).connect(begun))
    is_served(address, HERE)
    is_served(address, STRANGER)


@pytest.mark.parametrize(("count", "attacker"), [(8, HERE), (8, NEIGHBOUR), (140, HERE), (140, NEIGHBOUR)])
def test_slow_uploads_lock_nobody_out(serve: Serve, crowd: ExitStack, count: int, attacker: str) -> None:
    address = serve()
    is_served(address, HERE)
    visitor = Client(address, attacker)
    for _ in range(count):
        crowd.enter_context(visitor.connect(put(visitor, 1000, b"abc")))
    is_served(address, HERE)
    is_served(address, STRANGER)


def test_many_addresses_at_once(serve: Serve, crowd: ExitStack) -> None:
    address = serve(limits=Limits(connections=20))
    for number in range(60):
        visitor = Client(address, f"127.0.1.{number + 1}")
        crowd.enter_context(visitor.connect(put(visitor, 1000, b"abc") if number % 2 else b""))
    is_served(address, HERE)


def test_who_is_at_work_is_not_dropped(serve: Serve, crowd: ExitStack, quick: dhpf.Matcher) -> None:
    models = Slow(quick)
    address = serve(models=models, limits=Limits(connections=4))
    client = Client(address)
    photos = client.sample("cats")
    with ThreadPoolExecutor() as threads:
        answer = threads.submit(client.match, photos)
        assert models.started.wait(10)
        for _ in range(10):
            crowd.enter_context(client.connect())
        assert client.send("GET", "/api/setup").status == 200
        models.free.set()
        assert answer.result().status == 200


def closed_after(connection: socket.socket, trickle: bytes = b"", patience: float = 20.0) -> float:
    """How long the server keeps a connection on which bytes come one at a time, or none."""
    started, letters = time.monotonic(), itertools.cycle(trickle)
    connection.settimeout(0.05)
    while time.monotonic() - started < patience:
        try:
            if trickle:
                connection.send(bytes([next(letters)]))
            if connection.recv(65536) == b"":
                break
        except TimeoutError:
            continue
        except ConnectionError:
            break
    return time.monotonic() - started


@pytest.mark.parametrize(
    ("begun", "trickle"),
    [
        ("", ""),
        ("", "a"),
        ("GET / HTTP/1.1\r\nX: ", "a"),
        ("GET /api/setup HTTP/1.1\r\nHost: {host}\r\n\r\n", ""),
        ("GET /api/setup HTTP/1.1\r\nHost: {host}\r\n\r\nGET", "a"),
        ("GET /api/setup HTTP/1.1\r\nHost: {host}\r\nContent-Length: 100000\r\n\r\n", "a"),  # never read
    ],
    ids=["silence", "trickle", "headers", "after an answer", "second request", "unread body"],
)
def test_heads_have_a_time_limit(serve: Serve, crowd: ExitStack, begun: str, trickle: str) -> None:
    client = Client(serve(limits=Limits(head_seconds=0.5)))
    connection = crowd.enter_context(client.connect(begun.format(host=client.host).encode()))
    assert 0.3 < closed_after(connection, trickle.encode()) < 5  # which is uvicorn's bound of silence


def test_a_long_match_is_not_cut_off(serve: Serve, quick: dhpf.Matcher) -> None:
    """The limit on heads is about the client's time; two requests sent at once are both answered."""
    models = Slow(quick)
    client = Client(serve(models=models, limits=Limits(head_seconds=0.3)))
    where = client.sample("cats")
    body = '{{"source": "{}", "target": "{}"}}'.format(where["source"]["id"], where["target"]["id"])
    head = f"HTTP/1.1\r\nHost: {client.host}\r\nCookie: {client.cookie}\r\n"
    match = f"POST /api/match {head}Content-Length: {len(body)}\r\n\r\n{body}"
    threading.Timer(1.5, models.free.set).start()
    with client.connect(f"GET /api/setup {head}\r\n{match}".encode()) as connection:
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    assert received.count(b"HTTP/1.1 200 OK") == 2 and b"layer_count" in received


def test_an_answer_must_be_taken(serve: Serve, crowd: ExitStack) -> None:
    client = Client(serve(limits=Limits(body_seconds=0.5)))
    stream = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (1200, 1200, 3), np.uint8)
    Image.fromarray(noise).save(stream, "JPEG", quality=90)
    photo = client.upload("source", stream.getvalue()).json["source"]["id"]
    length = len(client.send("GET", f"/api/photos/{photo}").body)
    asked = f"GET /api/photos/{photo} HTTP/1.1\r\nHost: {client.host}\r\nCookie: {client.cookie}\r\n\r\n"
    count = 2 + 30_000_000 // length  # more than the system holds for a client that does not read
    connection = crowd.enter_context(client.connect(asked.encode() * count))
    time.sleep(3)
    received = 0
    with suppress(ConnectionError):
        while more := len(connection.recv(2**20)):
            received += more
    assert received < (count - 1) * length


def test_busy(serve: Serve, quick: dhpf.Matcher) -> None:
    """One client gets half of the places, and is then told to come back; others, and clicks, are not."""
    models = Slow(quick)
    models.free.set()
    address = serve(models=models, limits=Limits(jobs=4))
    clicker, other = Client(address), Client(address, NEIGHBOUR)
    clicking = f"{clicker.matched_sample('cats')}/points"
    visitors = [Client(address) for _ in range(4)]
    photos = [visitor.sample("cheetahs") for visitor in visitors]
    of_other = other.sample("cheetahs")
    models.free.clear()
    with ThreadPoolExecutor() as threads:
        asked = [threads.submit(*each) for each in zip([v.match for v in visitors], photos, strict=True)]
        refusals = [each.result() for each in itertools.islice(as_completed(asked, 20), 2)]
        for answer in (*refusals, clicker.upload("source", png(60, 40))):
            refused(answer, 503, "busy with other photos; try again in a few seconds")
            assert int(answer.headers["Retry-After"]) > 0
        assert clicker.send("POST", clicking, {"points": [[1, 1]]}).status == 200
        asked.append(threads.submit(other.match, of_other))
        time.sleep(0.3)
        assert not asked[-1].done()  # it waits, and is not refused
        models.free.set()
        assert sorted(each.result().status for each in asked) == [200, 200, 200, 503, 503]
    assert visitors[0].match(photos[0]).status == visitors[3].match(photos[3]).status == 200


def test_what_is_being_uploaded_is_bounded(serve: Serve) -> None:
    address = serve(limits=Limits(upload_bytes=100_000, incoming_bytes=200_000))
    client, other = Client(address), Client(address, NEIGHBOUR)
    with client.connect(put(client, 100_000, bytes(90_000))):
        answer = client.upload("source", bytes(20_000))
        while answer.status != 503:  # until the first bytes have arrived
            time.sleep(0.05)
            answer = client.upload("source", bytes(20_000))
        assert int(answer.headers["Retry-After"]) > 0
        assert other.upload("source", png(60, 40)).status == 200
    while client.upload("source", png(60, 40) + bytes(20_000)).status == 503:  # until the end is noticed
        time.sleep(0.05)


def test_supplies_are_given_back() -> None:
    supply = Supply(10)
    with supply.drawn("a") as a, supply.drawn("b") as b:
        a(5)
        with pytest.raises(BusyError):
            a(1)
        b(2)
        b(3)
        with pytest.raises(BusyError), supply.drawn("c") as c:
            c(1)
    with supply.drawn("a") as a:
        a(5)
    assert not supply._held


def test_a_client_is_an_address_or_a_network() -> None:
    assert client_at("10.0.0.7") == client_at("::ffff:10.0.0.7") == "10.0.0.7"
    assert client_at("2001:db8::1") == client_at("2001:db8::ffff:2") != client_at("2001:db8:0:1::1")
    assert client_at("fe80::1%eth0") == client_at("fe80::2")


PROGRAM = """
import json, os, sys
from pathlib import Path
import dhpf
from benchmarks.web_client import Client
from dhpf.web.limits import Limits
from tests.web.conftest import Given, served
from tests.web.test_crowd import plain

def megabytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

photo, small = plain(3000, 2000), plain(1500, 100)
with served(Given(dhpf.load("hpf-resnet50", size=64)), Limits(kept_bytes=120 * 2**20)) as address:
    def visit(data):
        client = Client(address)
        photos = client.upload("source", data).json | client.upload("target", data).json
        where = f"/api/match/{client.match(photos).json['match']}"
        assert client.send("POST", f"{where}/picture", {"view": "lines", "points": [[1, 1]]}).status == 200
    visit(small)
    before = megabytes()
    for _ in range(5):
        visit(photo)
    print(megabytes() - before)
"""


def plain(width: int, height: int) -> bytes:
    """The file of a photo without anything on it."""
    stream = io.BytesIO()
    Image.new("RGB", (width, height), "navy").save(stream, "PNG")
    return stream.getvalue()


def test_the_bound_on_memory_is_true() -> None:
    """Five visitors with two photos of 6 million pixels each, where 120 MB are to be kept."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, cwd=Path(__file__).parents[2]
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 160  # with 40 for what comes and goes


def test_the_end_does_not_wait_for_long_work(quick: dhpf.Matcher, capfd: pytest.CaptureFixture[str]) -> None:
    models = Slow(quick)
    with ThreadPoolExecutor() as threads:
        with served(models, None) as address:
            client = Client(address)
            answer = threads.submit(client.match, client.sample("cats"))
            assert models.started.wait(10)
            started = time.monotonic()
        assert time.monotonic() - started < 10
        models.free.set()
        refused(answer.result(), 503, "busy")
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_cleanly_whatever_was_sent(how: signal.Signals) -> None:
    """No traceback from half characters, uploads given up or under way, or what is not HTTP."""
    with running_server("--model", "hpf-resnet50", stderr=subprocess.PIPE) as server:
        client = Client(server.address)
        for content in (
            rb'{"pair": "\ud800"}',
            rb'{"\udfff": 1}',
            rb'{"view": "\ud800", "points": [[1, 1]]}',
        ):
            for path in ("/api/sample", "/api/match", "/api/match/%ed%a0%80/points"):
                assert client.send("POST", path, content).status in (400, 404)
        client.sample("cheetahs")
        assert client.send("POST", "/api/match", rb'{"model": "\udead"}').status == 400
        client.connect(put(client, 1000, b"abc")).close()
        client.connect(b"\x16\x03\x01 nonsense\r\n\r\n").close()
        client.connect(f"GET / HTTP/1.1\r\nHost: {client.host}\r\nUpgrade: websocket\r\n".encode()).close()
        with client.connect(put(client, 1000, b"abc")):
            assert client.send("GET", "/api/setup").status == 200
            server.process.send_signal(how)
            out, err = server.process.communicate(timeout=20)
    assert (server.process.returncode, out, err) == (0, "stopped\n", "")
