"""Drawn pairs, one folder of features for all, and small runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from dhpf.backbones.base import Backbone
from dhpf.backbones.weights import load_backbone
from dhpf.train.config import Config, make_config
from dhpf.train.loop import train

from .drawn import write_pairs

SMALL: dict[str, dict[str, Any]] = {
    "model": {"size": [64, 64]},
    "head": {"gate_power": 1},
    "data": {"holdout": 0.2, "per_epoch": 6, "validation_pairs": 3},
    "augment": {"augmentations": 2, "crop": 0.2, "colour": 0.2},
    "optimiser": {"ema": 0.5},
    "run": {"epochs": 2, "batch": 2, "save_every": 1},
}

MakeConfig = Callable[..., Config]


@pytest.fixture(scope="session", autouse=True)
def one_thread_each() -> Iterator[None]:
    """The last bits depend on the number of threads; processes that the tests start have one each too."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def backbone() -> Backbone:
    return load_backbone("resnet50-msra")


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of data sets: PF-PASCAL with 18 pairs in 6 groups, two of the pairs also in the test list."""
    folder = tmp_path_factory.mktemp("data")
    write_pairs(folder / "PF-PASCAL", categories=2, groups=3, photos=3)
    return folder


@pytest.fixture(scope="session")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("features")


@pytest.fixture(scope="session")
def small(root: Path) -> MakeConfig:
    """A configuration of a run of two epochs of three steps, with changes such as ``run={"epochs": 1}``."""

    def make(**changes: dict[str, Any]) -> Config:
        sections = {key: {**SMALL.get(key, {}), **changes.get(key, {})} for key in {*SMALL, *changes}}
        sections["data"].setdefault("root", str(root))
        return make_config(sections, "small")

    return make


class Finished(NamedTuple):
    """A run that nothing disturbed."""

    config: Config
    out: Path


@pytest.fixture(scope="session")
def finished(small: MakeConfig, features: Path, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    config, out = small(), tmp_path_factory.mktemp("finished")
    train(config, out, features=features)
    return Finished(config, out)


def environment() -> dict[str, str]:
    """For processes that the tests start: they import what the tests import."""
    import dhpf

    places = [str(Path(dhpf.__file__).parents[1]), str(Path(__file__).parents[2])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(places), "OMP_NUM_THREADS": "1"}
