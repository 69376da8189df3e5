"""Where a process matters: signals, limits of the system, an odd environment."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.conftest import Ran
from tests.robustness.conftest import World

Tried: TypeAlias = Callable[[str], Ran]

PROGRAM = "from dhpf.__main__ import main; main()"
SIGNAL_AT_IMPORT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # tests may run where it is ignored
class Sends:
    def find_spec(self, name, path=None, target=None):
        if name == "{module}":
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.{signal})
sys.meta_path.insert(0, Sends())
"""
LITTLE_MEMORY = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (600 * 2**20,) * 2)
"""


def run(folder: Path, line: str, before: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """The program in a process of its own, in which some lines may run before it."""
    known = {name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_CACHE_HOME")}
    command = [sys.executable, "-c", f"{before}\n{PROGRAM}", *line.split()]
    return subprocess.run(
        command, cwd=folder, env=known | environment, text=True, capture_output=True, timeout=300
    )


@pytest.fixture
def tried(
    tmp_path: Path,
    world: World,
    command: Callable[..., Ran],
    loaded_once: None,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Tried]:
    """The program in an empty folder, in this process; it must leave the folder empty."""
    monkeypatch.chdir(tmp_path)
    yield lambda line: command(*world.real(line).split())
    assert list(tmp_path.iterdir()) == []


def refused(ran: Ran, complaint: str) -> None:
    assert (ran.code, ran.out) == (2, ""), ran.err
    assert ran.err.startswith("dhpf: error: ") and ran.err.count("\n") == 1, ran.err
    assert complaint in ran.err


@pytest.mark.parametrize("module", ["typer", "dhpf.cli.web", "PIL", "torch", "dhpf.matcher"])
def test_ctrl_c_while_libraries_are_imported(tmp_path: Path, module: str) -> None:
    before = SIGNAL_AT_IMPORT.format(module=module, signal="SIGINT")
    ended = run(tmp_path, "match --sample cats --size 64", before)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "dhpf: error: interrupted\n")
    assert list(tmp_path.iterdir()) == []


def test_sigterm_leaves_no_temporary_folder(tmp_path: Path, world: World) -> None:
    work, temporary = tmp_path / "work", tmp_path / "temporary"
    work.mkdir()
    temporary.mkdir()
    before = SIGNAL_AT_IMPORT.format(module="dhpf.evaluate.predict", signal="SIGTERM")
    line = world.real("evaluate --dataset pf-pascal --root GOOD/data/PF-PASCAL --json out.json")
    ended = run(work, line, before, TMPDIR=str(temporary))
    assert (ended.returncode, ended.stderr) == (143, "")
    assert [*work.iterdir(), *temporary.iterdir()] == []


def unknown(uid: int) -> None:
    raise KeyError(uid)


@pytest.mark.parametrize(
    "line", ["data list", "data download pf-pascal", "match --sample cats --model hpf-resnet101"]
)
def test_a_user_without_a_home(line: str, tried: Tried, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pwd.getpwuid", unknown)
    for variable in ("HOME", "XDG_CACHE_HOME", "DHPF_HOME"):
        monkeypatch.delenv(variable, raising=False)
    refused(tried(line), "there is no home folder for downloads; set DHPF_HOME to a folder")


@pytest.mark.parametrize(
    "nonsense", ["LOCAL_WORLD_SIZE=x", "LOCAL_WORLD_SIZE=0", "RANK=x", "RANK=2", "RANK=-1"]
)
def test_nonsense_about_processes(nonsense: str, tried: Tried, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv(*nonsense.split("="))
    refused(tried("predict --dataset pf-pascal --root GOOD/data/PF-PASCAL --out out.npz"), nonsense)


def test_little_memory_from_the_beginning(tmp_path: Path) -> None:
    """As after ulimit -v: libraries themselves cannot be loaded, or the model cannot."""
    ended = run(tmp_path, "match --sample cats", LITTLE_MEMORY, OMP_NUM_THREADS="1")
    refused(Ran(ended.returncode, ended.stdout, ended.stderr), "memory")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("line", "code"), [("models", 0), ("models nobody", 2)])
@pytest.mark.parametrize("torchrun", [False, True])
def test_under_torchrun_nothing_runs_after_the_end(
    tmp_path: Path, line: str, code: int, torchrun: bool
) -> None:
    """There a thread of the process group could abort the process while Python is taken down."""
    before = "import atexit; atexit.register(print, 'taken down')"
    ran = run(tmp_path, line, before, **({"TORCHELASTIC_RUN_ID": "one"} if torchrun else {}))
    assert ran.returncode == code
    assert ("taken down" in ran.stdout) is not torchrun
    assert ("dinov2-small" in ran.stdout) == (code == 0)  # what was printed is all there
    assert ran.stderr.count("\n") == (code == 2)
