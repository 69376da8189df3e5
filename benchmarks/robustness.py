"""The long trial: damaged files, kills, a full disc, two writers at once, slow clients. Loopback only.

    python -m benchmarks.robustness --minutes 10

It begins with sound files, so that every result is known, and records how often what happened. Anything that
should not have happened is printed, and ends the program with code 1 after the record is written.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import resource
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from benchmarks.fuzz import fuzz
from benchmarks.inputs import make_inputs
from benchmarks.record import save_result
from benchmarks.web_client import Client
from benchmarks.web_process import running_server
from dhpf import cli
from dhpf.analysis import pair_report, timing  # noqa: F401  # what the commands import, once for all processes
from dhpf.train import loop  # noqa: F401

MEMORY = 4 * 2**30  # bytes beyond what is loaded: a reader that wants more has no bound
PARTS = ("kills", "full discs", "two writers", "slow clients", "damaged files")
CROWD = 140  # connections of slow clients
Listing = dict[str, Any]  # name of a result -> what it says, without the time that it took


def commands(good: Path) -> dict[str, list[str]]:
    """The commands that take hours; OUT is where they write."""
    data = f"--dataset pf-pascal --root {good}/data/PF-PASCAL --split test --model hpf-resnet50 --size 48"
    marked = f"{good}/references.json {good}/photos --features {good.parent}/kept"
    lines = (
        f"match-many {good}/photos --out OUT --flow --model hpf-resnet50 --size 48",
        f"predict {data} --out OUT/p.npz --workers 1",
        f"evaluate {data} --out OUT/p.npz --json OUT/e.json --workers 1",
        f"annotate {marked} --out OUT/a.json --contact-sheet OUT/a.html --model hpf-resnet50 --size 48",
        f"beam-search {data} --every 4 --max-layers 2 --beam 1 --workers 1 --json OUT/b.json",
        f"train {good}/recipe.toml --resume --out OUT --features {good.parent}/features",
        f"analyse {data} --timed-pairs 1 --workers 1 --out OUT",
    )
    return {line.split()[0]: line.split() for line in lines}


def start(arguments: list[str], out: Path, limit: int | None = None) -> int:
    """Run a command in a process of its own, forked from this one, which has loaded everything."""
    out.mkdir(exist_ok=True)
    child = os.fork()
    if child:
        return child
    with (out.parent / f"{out.name}.log").open("w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        sys.argv = ["dhpf", *(word.replace("OUT", str(out)) for word in arguments)]
        code = 1
        try:
            cli.main()
        except SystemExit as ended:
            code = int(ended.code or 0)
        except BaseException as error:
            with contextlib.suppress(OSError):
                print(f"Traceback: {type(error).__name__}: {error}", file=sys.stderr)
        with contextlib.suppress(OSError):
            sys.stderr.flush()
        os._exit(code)


def end(child: int) -> int:
    """Wait for a process; its exit code, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kill(child: int, seconds: float) -> bool:
    """Kill a process after so long; False if it ended before."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if os.waitpid(child, os.WNOHANG)[0]:
            return False
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    return end(child) == -signal.SIGKILL


def said(out: Path) -> str:
    """What a process wrote last."""
    return (out.parent / f"{out.name}.log").read_text(errors="replace")


def results(out: Path) -> Listing:
    """All that a command left, byte for byte; of a training what it learned, as its files name the time."""
    found: Listing = {}
    for path in sorted(out.rglob("*")):
        name = str(path.relative_to(out))
        if path.is_dir() or "tfevents" in name or name in ("state.safetensors", "report.html"):
            continue
        if re.search(r"run-\d+$", name):  # what is finished, in the order of the runs
            continue
        if path.suffix == ".safetensors":
            with safe_open(path, "pt") as head:
                found[name] = {key: head.get_tensor(key).tolist() for key in sorted(head.keys())}
        elif out.name.startswith("analyse"):
            found |= {name: path.read_bytes()} if path.suffix == ".npz" else {name: "there"}
        else:
            found[name] = path.read_bytes()
    return found


class Trial:
    """A folder for it, what chance brings, and what went wrong."""

    def __init__(self, folder: Path, seed: int, names: list[str]) -> None:
        self.folder, self.chance, self.wrong = folder, random.Random(seed), list[str]()
        self.good = folder / "good"
        make_inputs(self.good)
        self.commands = {name: line for name, line in commands(self.good).items() if name in names}
        self.undisturbed: dict[str, Listing] = {}
        self.seconds: dict[str, float] = {}
        for name, arguments in self.commands.items():
            out, begun = self.new(name), time.monotonic()
            if end(start(arguments, out)):
                raise RuntimeError(f"{name}: {said(out)}")
            self.undisturbed[name], self.seconds[name] = results(out), time.monotonic() - begun
            print(f"{name}: {self.seconds[name]:.1f} s undisturbed", flush=True)

    def new(self, name: str) -> Path:
        """A folder that is not there yet."""
        return self.folder / f"{name}-{1 + len(list(self.folder.glob(f'{name}-*.log')))}"

    def expect(self, fine: bool, what: str, out: Path) -> None:
        """Note what should not have happened."""
        if not fine:
            self.wrong.append(f"{what}: {said(out)[-300:]}")

    def compare(self, name: str, out: Path, what: str) -> None:
        """The results must be those of a run that nothing disturbed."""
        found, wanted = results(out), self.undisturbed[name]
        differ = sorted(key for key in {*found, *wanted} if found.get(key) != wanted.get(key))
        self.expect(not differ, f"{what}: {name} ends with other results ({', '.join(differ)})", out)

    def kills(self, seconds: float, most: int) -> dict[str, int]:
        """Kill each command at random moments, and let it resume each time until it is done."""
        killed, ends = Counter[str](), time.monotonic() + seconds
        while time.monotonic() < ends and killed.total() < most:
            name = min(self.commands, key=lambda name: killed[name])
            out = self.new(name)
            for attempt in range(self.chance.randint(1, 4)):
                begun = time.monotonic()
                if not kill(start(self.commands[name], out), self.chance.uniform(0, self.seconds[name])):
                    if attempt == 0:
                        self.seconds[name] = time.monotonic() - begun  # libraries are in memory by now
                    break
                killed[name] += 1
            self.expect(end(start(self.commands[name], out)) == 0, f"kills: {name} does not resume", out)
            self.compare(name, out, "kills")
        return dict(killed)

    def full_disc(self, seconds: float, most: int) -> dict[str, int]:
        """Files cannot grow beyond some size: one line, then the same command ends the work."""
        tried, failed, ends = Counter[str](), Counter[str](), time.monotonic() + seconds
        while time.monotonic() < ends and tried.total() < most:
            name = min(self.commands, key=lambda name: tried[name])
            out = self.new(name)
            code = end(start(self.commands[name], out, limit=int(10 ** self.chance.uniform(2.7, 4))))
            lines = [line for line in said(out).splitlines() if "error" in line or "Traceback" in line]
            self.expect(
                code in (0, 2) and len(lines) == code // 2 and "Traceback" not in said(out),
                f"full disc: {name} ends with {code}",
                out,
            )
            left = [str(path) for path in out.rglob(".*.partial*")]
            self.expect(not left, f"full disc: {name} leaves {left}", out)
            if code:  # else all files were smaller
                self.expect(
                    end(start(self.commands[name], out)) == 0, f"full disc: {name} does not resume", out
                )
            self.compare(name, out, "full disc")
            tried[name] += 1
            failed[name] += code == 2
        return dict(failed)

    def two_writers(self, seconds: float, most: int) -> dict[str, int]:
        """Two processes with the same output: one whole result, and a line for who lost."""
        done, ends = Counter[str](), time.monotonic() + seconds
        shared = [name for name in self.commands if name != "train"]  # which would be two runs, not one
        while time.monotonic() < ends and done.total() < most:
            name = min(shared, key=lambda name: done[name])
            out = self.new(name)
            first = start(self.commands[name], out)
            time.sleep(self.chance.uniform(0, self.seconds[name]))
            codes = {end(start(self.commands[name], out)), end(first)}
            self.expect(codes <= {0, 2} and 0 in codes, f"two writers: {name} ends with {codes}", out)
            self.expect("Traceback" not in said(out), f"two writers: {name}", out)
            self.compare(name, out, "two writers")
            done[name] += 1
        return dict(done)


def slow_clients(seconds: float, wrong: list[str]) -> dict[str, Any]:
    """A visitor of the page among clients who connect, send little or nothing, and stay."""
    times: list[float] = []
    crowd: list[socket.socket] = []
    with running_server("--model", "hpf-resnet50", "--size", "64") as server:
        visitor, ends = Client(server.address), time.monotonic() + seconds
        head = "PUT /api/photos/source HTTP/1.1\r\nHost: {}\r\nContent-Length: 99999\r\n\r\nabc"
        while time.monotonic() < ends:
            slow = Client(server.address, f"127.0.0.{2 + len(crowd) % 4}")
            for begun in ("", "GET / HT", head.format(slow.host)):
                with contextlib.suppress(OSError):
                    crowd.append(slow.connect(begun.encode()))
            while len(crowd) > CROWD:
                with contextlib.suppress(OSError):
                    crowd.pop(0).close()
            began = time.monotonic()
            try:
                where = visitor.matched_sample("cats")
                answer = visitor.send("POST", f"{where}/points", {"points": [[20, 20]]})
                if answer.status != 200:
                    wrong.append(f"slow clients: {answer.status} {answer.body[:100]!r}")
            except (OSError, RuntimeError) as error:
                wrong.append(f"slow clients: {error}")
            times.append(time.monotonic() - began)
        for connection in crowd:
            connection.close()
    return {
        "connections": len(crowd),
        "visits answered": len(times),
        "longest visit, s": round(max(times), 1),
    }


def main() -> None:
    """Try, print, record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="about, for all parts together")
    parser.add_argument("--most", type=int, default=10**6, help="files, kills and runs of each part, at most")
    parser.add_argument("--seed", type=int, default=0)
    known = list(commands(Path()))
    parser.add_argument("--commands", nargs="+", choices=known, default=known, help="to be disturbed")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what is tried")
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.optim.AdamW([torch.zeros(1, requires_grad=True)])  # imports much, once for all processes
    os.environ["OMP_NUM_THREADS"] = "1"
    begun, share = time.monotonic(), 60 * given.minutes
    with tempfile.TemporaryDirectory() as temporary:
        trial = Trial(Path(temporary), given.seed, given.commands)
        parts: dict[str, tuple[float, Callable[[float], Any]]] = {
            "kills": (0.5, lambda s: trial.kills(s, given.most)),
            "full discs": (0.1, lambda s: trial.full_disc(s, given.most)),
            "two writers": (0.1, lambda s: trial.two_writers(s, given.most)),
            "slow clients": (0.1, lambda s: slow_clients(s, trial.wrong)),
        }
        result: dict[str, Any] = {}
        for name, (portion, part) in parts.items():
            if name in given.parts:
                result[name] = part(portion * share)
                print(f"{name}: {result[name]}", flush=True)
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + MEMORY, resource.RLIM_INFINITY))
        scratch = trial.folder / "scratch"
        scratch.mkdir()
        seconds = 0.2 * share if "damaged files" in given.parts else 0
        fuzzed = fuzz(trial.good, scratch, trial.chance, seconds, given.most)
    result["damaged files"] = {name: tried.described() for name, tried in fuzzed.items()}
    wrong = [*trial.wrong, *(f"{name}: {line}" for name, tried in fuzzed.items() for line in tried.escapes)]
    result |= {"wrong": wrong[:20], "minutes": round((time.monotonic() - begun) / 60, 1), "seed": given.seed}
    print(json.dumps(result, indent=1))
    if set(given.parts) == set(PARTS) and given.commands == known:
        save_result("robustness", " ".join(["python -m benchmarks.robustness", *sys.argv[1:]]), result)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
