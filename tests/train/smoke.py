"""Train a small head on drawn pairs and see that it learns: ``make train-smoke``, a minute or two."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import torch

from dhpf.backbones.weights import load_backbone
from dhpf.methods.dhpf import DHPF
from dhpf.train.augmentation import Augmentation
from dhpf.train.config import Config
from dhpf.train.features import FeatureStore
from dhpf.train.loop import train
from dhpf.train.recipe import read_recipe
from dhpf.train.sources import open_sources
from dhpf.train.validate import validate

from .drawn import write_pairs

GAIN, FALL = (
    25.0,
    0.6,
)  # points of PCK that training adds at least; fraction of the matching loss that is left

OVER_A_VIT = (
    "model.backbone=dinov2-vits14",
    "model.size=[112, 112]",
    "head.perceptron=32",
    "head.readout=soft-argmax",
    "loss.omega=false",
    "loss.select=0",
)
OF_A_VIT = 4.0, 0.8  # it begins with far better features, at an eighth of the cells


def untrained_pck(config: Config, features: Path) -> float:
    """Validation PCK of the head that training begins with."""
    sources = open_sources(config.data, config.run.seed, needs_points=True)
    backbone = load_backbone(config.model.backbone)
    store = FeatureStore(backbone, config.model.backbone, config.model.size, features, 10**10)
    method = DHPF(backbone, config.head)
    samples = [store.get(sources.train[0][n].source, Augmentation()) for n in range(len(sources.train[0]))]
    method.prepare(samples, torch.Generator().manual_seed(config.run.seed), config.model.init)
    return validate(method, sources.validation, store, 0, 1)["mean"]


def learn(
    folder: Path, *changes: str, groups: int = 4, seed: int = 0
) -> tuple[float, list[dict[str, float]]]:
    """Draw pairs in a folder and train on them: the PCK before, and the history."""
    write_pairs(folder / "data" / "PF-PASCAL", categories=3, groups=groups, photos=4, seed=seed)
    config = read_recipe("smoke", [f"data.root={folder / 'data'}", f"run.seed={seed}", *changes])
    before = untrained_pck(config, folder / "features")
    train(config, folder / "run", features=folder / "features")
    return before, json.loads((folder / "run" / "history.json").read_text())


def check(before: float, history: list[dict[str, float]], gain: float = GAIN, fall: float = FALL) -> None:
    """The matching loss falls, and the PCK of held-out pairs rises well above the untrained head's."""
    first, last = history[0]["match"], history[-1]["match"]
    assert last < fall * first, f"the matching loss was {first:.3f} and is {last:.3f}"
    after = max(record["val mean"] for record in history)
    assert after > before + gain, f"PCK of held-out pairs was {before:.1f} and is {after:.1f}"


def main() -> None:
    for name, changes, gain, fall in (("ResNet", (), GAIN, FALL), ("ViT", OVER_A_VIT, *OF_A_VIT)):
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            before, history = learn(Path(folder), *changes, *sys.argv[1:])
        first, last = history[0], history[-1]
        print(
            f"{name}: held-out PCK {before:.1f} -> {last['val mean']:.1f}, matching loss "
            f"{first['match']:.2f} -> {last['match']:.2f}, {time.monotonic() - begun:.0f} s"
        )
        check(before, history, gain, fall)


if __name__ == "__main__":
    main()
