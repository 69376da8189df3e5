"""A run that is killed at one moment after another, and taken up again each time.

``python -m tests.train.killed RECIPE OUT FEATURES`` prints a line for each attempt. It is a program, so that
attempts can be forked from a process that has loaded everything and computed nothing.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from dhpf.train.loop import train
from dhpf.train.recipe import read_recipe


def moments(out: Path) -> dict[str, Callable[[], object]]:
    """Name -> a condition at which to kill; it is asked again and again from the attempt's beginning on."""

    def after(seconds: float) -> Callable[[], bool]:
        begun = time.monotonic()
        return lambda: time.monotonic() - begun > seconds

    def changed(name: str) -> Callable[[], bool]:
        def version() -> int:
            return (out / name).stat().st_mtime_ns if (out / name).exists() else 0

        before = version()
        return lambda: version() != before

    def writing(name: str) -> Callable[[], bool]:
        before = set(out.glob(f".{name}.*.partial.*"))  # what was left by those that were killed
        return lambda: not before.issuperset(out.glob(f".{name}.*.partial.*"))

    return {
        "at once": after(0.02),
        "writing the state": writing("state"),
        "the state is written": changed("state.safetensors"),
        "in a step": after(1.0),
        "writing the last head": writing("last"),
        "the last head is written": changed("last.safetensors"),
        "writing the best head": writing("best"),
        "all but the state is written": changed("history.json"),
    }


def attempt(recipe: Path, out: Path, features: Path, stop: Callable[[], object]) -> str:
    """Begin or go on in a process of its own, until it ends or the moment comes."""
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)
        train(read_recipe(recipe), out, resume=True, features=features)
        os._exit(0)
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return "finished" if status == 0 else f"failed with status {status}"
        if stop():
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "killed"
        time.sleep(0.002)  # a state of 80 MB takes much longer to write


def main() -> None:
    recipe, out, features = map(Path, sys.argv[1:])
    for name in moments(out):
        print(name, attempt(recipe, out, features, moments(out)[name]), sep=": ", flush=True)
    print("to the end", attempt(recipe, out, features, lambda: False), sep=": ")


if __name__ == "__main__":
    main()
