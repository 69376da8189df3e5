"""Sound and damaged files, which no case may change; and a program whose models are loaded once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import pytest
import typer
from benchmarks.inputs import make_inputs

import dhpf
from dhpf import matcher as loading
from dhpf.zoo import models
from tests.robustness.cases import WRITERS, inputs_of
from tests.robustness.damage import make_damaged


class World(NamedTuple):
    """Folders of files that are read."""

    good: Path
    bad: Path

    def real(self, text: str) -> str:
        """With the folders' names in place of GOOD and BAD."""
        return text.replace("GOOD", str(self.good)).replace("BAD", str(self.bad))

    def state(self) -> dict[str, tuple[int, ...]]:
        """Of every file: what changes as soon as anything writes to it."""
        found = {}
        for folder in (self.good, self.bad):
            for place, folders, files in os.walk(folder):
                for name in (*folders, *files):
                    status = os.lstat(os.path.join(place, name))  # noqa: PTH118
                    found[f"{place}/{name}"] = (status.st_ino, status.st_mtime_ns, status.st_size)
        return found


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("world")
    made = World(folder / "good", folder / "bad")
    make_inputs(made.good)
    make_damaged(made.bad)
    places = made.bad / "places"
    places.mkdir()
    for suffix in ("json", "npz", "png", "safetensors"):
        (places / f"folder.{suffix}").mkdir()
        (places / f"circle.{suffix}").symlink_to(f"circle.{suffix}")
        os.mkfifo(places / f"pipe.{suffix}")
        for name in {name for line in WRITERS for name in inputs_of(line)}:
            alias = name.replace("/", "-")
            (places / f"soft-{alias}.{suffix}").symlink_to(made.real(name))
            (places / f"hard-{alias}.{suffix}").hardlink_to(made.real(name))
    return made


@pytest.fixture
def loaded_once() -> Iterator[None]:
    """Models and the tree of commands need not be made anew for every case."""
    with pytest.MonkeyPatch.context() as patch:
        load = loading.load

        def cached(model: str, *options: object, flip: str = "none") -> dhpf.Matcher:
            plain = model in models() and options in ((), (None, "cpu", None)) and flip == "none"
            return _loaded(load, model) if plain else load(model, *options, flip=flip)  # type: ignore[arg-type]

        patch.setattr(loading, "load", cached)
        patch.setattr(typer.main, "get_command", _commands)
        yield


_commands = lru_cache(typer.main.get_command)


@lru_cache
def _loaded(load: object, model: str) -> dhpf.Matcher:
    return load(model)  # type: ignore[operator,no-any-return]
