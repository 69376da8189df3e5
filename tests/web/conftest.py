"""A page on loopback, in this process, with models and limits that a test chooses."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from benchmarks.web_client import Client

import dhpf
from dhpf.web.app import build_app
from dhpf.web.connections import build_server
from dhpf.web.guard import Hosts
from dhpf.web.limits import Limits
from dhpf.web.models import Models
from dhpf.web.review import Review
from dhpf.web.server import listen


class Given(Models):
    """Models that are all one matcher, which is loaded already."""

    def __init__(self, matcher: dhpf.Matcher) -> None:
        super().__init__()
        self.given = matcher

    def matcher(self, name: str) -> dhpf.Matcher:
        return self.given


class Slow(Given):
    """A matcher that does not come before it is let."""

    def __init__(self, matcher: dhpf.Matcher) -> None:
        super().__init__(matcher)
        self.started, self.free = threading.Event(), threading.Event()

    def matcher(self, name: str) -> dhpf.Matcher:
        self.started.set()
        assert self.free.wait(30)
        return self.given


@contextmanager
def served(
    models: Models, limits: Limits | None, hosts: Hosts | None = None, review: Review | None = None
) -> Iterator[str]:
    """The address of a page, for as long as it is served."""
    with listen("127.0.0.1", 0) as listener:
        server = build_server(build_app(models, hosts, limits, review=review), limits)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield "http://{}:{}".format(*listener.getsockname())
        finally:
            server.should_exit = True
            thread.join()


Serve = Callable[..., str]


@pytest.fixture
def serve(quick: dhpf.Matcher) -> Iterator[Serve]:
    """Serve a page; by default with the quick matcher and the usual limits."""
    with ExitStack() as stack:

        def start(
            models: Models | None = None, limits: Limits | None = None, hosts: Hosts | None = None
        ) -> str:
            return stack.enter_context(served(models or Given(quick), limits, hosts))

        yield start


@pytest.fixture(scope="session")
def usual_page(quick: dhpf.Matcher) -> Iterator[str]:
    """The address of a page with the usual limits, for all tests that need no other."""
    with served(Given(quick), None) as address:
        yield address


@pytest.fixture
def client(usual_page: str) -> Client:
    """A new visitor of it."""
    return Client(usual_page)
