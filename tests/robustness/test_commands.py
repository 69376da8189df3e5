"""Every command with all that can be given wrongly: one line, exit code 2, and nothing else happened."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import Ran
from tests.robustness.cases import Case, table
from tests.robustness.conftest import World

CASES = table()
# A test run takes a sixth of them, the same ones each time; ROBUSTNESS=all takes all, in some minutes more.
TRIED = CASES if os.environ.get("ROBUSTNESS") == "all" else CASES[::6]
PATIENCE = 60  # seconds, after which a case counts as hanging: a pipe is waited for, a device read
ENOUGH = 3 * 2**30  # bytes of memory for a case


def test_there_are_enough_of_them() -> None:
    lines = {case.line for case in CASES}
    assert len(lines) == len(CASES) >= 300


class TimeIsUp(BaseException):
    """Not to be caught by what is tried."""


@pytest.fixture
def bounded() -> Iterator[None]:
    """A case that waits or reads without end fails, and leaves time and memory for the others."""

    def hangs(number: int, frame: object) -> None:
        raise TimeIsUp(f"not finished after {PATIENCE} seconds")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(PATIENCE)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + ENOUGH, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, limits)
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("bounded", "loaded_once")
@pytest.mark.parametrize("case", TRIED, ids=lambda case: case.line.replace("/", "|"))
def test_refused(
    case: Case,
    world: World,
    command: Callable[..., Ran],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    before = world.state()
    ran = command(*(world.real(word) for word in case.arguments))
    assert ran.code == 2, ran
    assert ran.out == ""
    assert ran.err.startswith("dhpf: error: "), ran.err
    assert ran.err.count("\n") == 1 and ran.err.endswith("\n"), ran.err
    assert len(ran.err) < 1000, len(ran.err)
    assert world.real(case.wrong) in ran.err, ran.err
    assert list(tmp_path.iterdir()) == []
    assert world.state() == before
