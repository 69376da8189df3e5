"""However a run went, with how many threads and processes, stopped and resumed: the file is the same."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from dhpf import InputError, Matcher
from dhpf.data import make_mini, open_dataset
from dhpf.data.pairs import PairDataset
from dhpf.evaluate.predict import predict

IN_PROCESS = """
import sys
import dhpf
from dhpf.data import open_dataset
from dhpf.evaluate.predict import predict
root, out, size = sys.argv[1:]
predict(dhpf.load("hpf-resnet50", size=int(size)), open_dataset("pf-pascal", root, "test"), out)
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A mini PF-PASCAL: 9 test pairs of 9 images, the official layout."""
    folder = tmp_path_factory.mktemp("pascal") / "root"
    make_mini("pf-pascal", folder)
    return folder


@pytest.fixture
def pairs(root: Path) -> PairDataset:
    return open_dataset("pf-pascal", root, "test")


@pytest.fixture(scope="module")
def whole(root: Path, quick: Matcher, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a run that nothing disturbed."""
    out = tmp_path_factory.mktemp("whole") / "p.npz"
    predict(quick, open_dataset("pf-pascal", root, "test"), out)
    return out.read_bytes()


def start(root: Path, out: Path, *before: str, size: int = 64) -> subprocess.Popen[str]:
    """The same in a process of its own, perhaps under a launcher."""
    script = out.with_suffix(".py")
    script.write_text(IN_PROCESS)
    command = [sys.executable, *before, str(script), str(root), str(out), str(size)]
    quiet = os.environ | {"TORCH_CPP_LOG_LEVEL": "ERROR"}
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=quiet)


@pytest.mark.parametrize(("workers", "cache_bytes"), [(1, 2**30), (3, 2**30), (2, 1)])
def test_the_file_depends_on_neither_workers_nor_cache(
    workers: int, cache_bytes: int, pairs: PairDataset, quick: Matcher, tmp_path: Path, whole: bytes
) -> None:
    threads = torch.get_num_threads()
    predict(quick, pairs, tmp_path / "p.npz", workers=workers, cache_bytes=cache_bytes)
    assert (tmp_path / "p.npz").read_bytes() == whole
    assert torch.get_num_threads() == threads


def test_two_processes_give_the_same_file(root: Path, tmp_path: Path, whole: bytes) -> None:
    out = tmp_path / "p.npz"
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    process = start(root, out, *launcher)
    assert process.wait(120) == 0, process.communicate()[1]
    process.communicate()
    assert out.read_bytes() == whole
    assert not list(tmp_path.glob("*.part-*"))


def test_a_killed_process_loses_nothing(root: Path, tmp_path: Path, matcher: Matcher) -> None:
    out, part = tmp_path / "p.npz", tmp_path / "p.npz.part-0"
    process = start(root, out, size=240)
    while process.poll() is None and not (part.exists() and part.read_bytes().count(b"\n") > 2):
        time.sleep(0.005)
    process.kill()
    _, errors = process.communicate()
    finished = part.read_bytes().count(b"\n") - 1
    assert 2 <= finished < 9, errors
    pairs = open_dataset("pf-pascal", root, "test")
    done = predict(matcher, pairs, out)
    assert (done.computed, done.kept) == (9 - finished, finished)
    predict(matcher, pairs, tmp_path / "again.npz")
    assert out.read_bytes() == (tmp_path / "again.npz").read_bytes()


class Interrupted(PairDataset):
    """A data set in which the user presses Ctrl-C at some pair."""

    def __init__(self, pairs: PairDataset, after: int) -> None:
        self.pairs, self.after = pairs, after
        self.name, self.root, self.split, self.entries = pairs.name, pairs.root, pairs.split, pairs.entries

    def __getitem__(self, index: int) -> Any:
        self.after -= 1
        if self.after < 0:
            raise KeyboardInterrupt
        return self.pairs[index]


@pytest.fixture(scope="module")
def interrupted(root: Path, quick: Matcher, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The part file of a run that was stopped on its way."""
    out = tmp_path_factory.mktemp("interrupted") / "p.npz"
    with pytest.raises(KeyboardInterrupt):
        predict(quick, Interrupted(open_dataset("pf-pascal", root, "test"), 8), out, workers=1)
    assert not out.exists()
    return out.with_name("p.npz.part-0").read_bytes()


@pytest.mark.parametrize("cut", [0.0, 0.01, 0.3, 0.5, 0.72, 0.999, 1.0])
def test_wherever_a_run_is_cut_it_goes_on_to_the_same_file(
    cut: float, interrupted: bytes, pairs: PairDataset, quick: Matcher, tmp_path: Path, whole: bytes
) -> None:
    content = interrupted[: round(cut * len(interrupted))]
    (tmp_path / "p.npz.part-1").write_bytes(content)  # of a process that is not there any more
    (tmp_path / "p.npz.part-0").write_bytes(content[: len(content) // 2])
    done = predict(quick, pairs, tmp_path / "p.npz")
    assert done.kept == max(0, content.count(b"\n") - 1)
    assert (tmp_path / "p.npz").read_bytes() == whole
    assert [path.name for path in tmp_path.iterdir()] == ["p.npz"]


def test_a_damaged_line_ends_what_is_believed(
    interrupted: bytes, pairs: PairDataset, quick: Matcher, tmp_path: Path, whole: bytes
) -> None:
    lines = interrupted.split(b"\n")
    wrong = b'{"index": 3, "outcome": {"pair_id": "x", "source_points": "y"}}'
    deep = b'{"index": ' + b"[" * 100_000
    for damage in (b"\0" * 40, b"[1, 2]", b'{"index": 3}', b"{}", wrong, deep):
        content = b"\n".join([*lines[:2], damage, *lines[2:]])
        (tmp_path / "p.npz.part-0").write_bytes(content)
        assert predict(quick, pairs, tmp_path / "p.npz").kept == 1
        assert (tmp_path / "p.npz").read_bytes() == whole


def test_two_runs_with_one_output_do_not_mix(
    interrupted: bytes, pairs: PairDataset, quick: Matcher, tmp_path: Path, whole: bytes
) -> None:
    """While one run has its part file open, another is refused, and changes nothing."""
    fcntl = pytest.importorskip("fcntl")
    part = tmp_path / "p.npz.part-0"
    part.write_bytes(interrupted)
    with part.open("ab") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        with pytest.raises(InputError, match=r"another run writes .*p\.npz\.part-0; wait for it"):
            predict(quick, pairs, tmp_path / "p.npz")
    assert part.read_bytes() == interrupted
    predict(quick, pairs, tmp_path / "p.npz")
    assert (tmp_path / "p.npz").read_bytes() == whole


def test_parts_of_another_run_are_refused(
    interrupted: bytes, pairs: PairDataset, matcher: Matcher, tmp_path: Path
) -> None:
    (tmp_path / "p.npz.part-0").write_bytes(interrupted)
    with pytest.raises(
        InputError, match=r"-0 holds a run with other settings \(config, size, weights\); remove"
    ):
        predict(matcher, pairs, tmp_path / "p.npz")


def test_parts_that_were_matched_in_another_way_are_refused(
    interrupted: bytes, pairs: PairDataset, quick: Matcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "p.npz.part-0").write_bytes(interrupted)
    changed = replace(quick.method.config, revote=True)
    monkeypatch.setattr(quick.method, "config", changed)
    quick = Matcher(quick.method, quick.name, quick.size, calibration=quick.calibration)
    with pytest.raises(InputError, match=r"-0 holds a run with other settings \(config, weights\); remove"):
        predict(quick, pairs, tmp_path / "p.npz")


def test_parts_of_other_pairs_are_refused(
    interrupted: bytes, pairs: PairDataset, quick: Matcher, tmp_path: Path
) -> None:
    (tmp_path / "p.npz.part-0").write_bytes(interrupted)
    with pytest.raises(InputError, match=r"-0 holds a run with other settings \(pairs\); remove"):
        predict(quick, pairs, tmp_path / "p.npz", limit=5)
