"""A run's configuration: frozen and typed. The sections ``head`` and ``loss`` are those of the method."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, make_dataclass
from functools import cache
from typing import Any

from ..backbones.weights import find_backbone
from ..errors import InputError
from ..matcher import check_size
from ..methods import find_method
from ..methods.base import Method
from ..settings import from_mapping


@dataclass(frozen=True)
class ModelConfig:
    """What is trained."""

    method: str = "dhpf"
    backbone: str = "resnet50-msra"
    size: tuple[int, int] = (240, 240)  # width, height of the network's input
    init: str = "random"  # or what else the method knows
    start: str = ""  # a model or head file to begin with


@dataclass(frozen=True)
class DataConfig:
    """Which pairs."""

    root: str = ""  # the folder of the data sets' folders; by default where 'dhpf data download' puts them
    # data set/split, pseudo:data set/split, coco:PATH/annotations.json, folder:PATH for synthetic pairs
    train: tuple[str, ...] = ("pf-pascal/val",)
    validate: tuple[str, ...] = ()  # data set/split of their own, beside what is held out
    exclude: tuple[str, ...] = ("pf-pascal/test",)  # pairs of these are never trained on or validated on
    exclude_images: tuple[str, ...] = ()  # no image of these is ever trained on
    holdout: float = 0.2  # fraction of the groups of connected pairs that is kept for validation
    holdout_images: int = 0  # instead, where pairs are connected or holdout is 0: images of each category
    per_epoch: int = 0  # pairs drawn from each data set in an epoch; 0: all
    group_images: int = 0  # draw all pairs among so many images, transformed once a step; 0: single pairs
    validation_pairs: int = 100  # at most, of each data set
    pseudo_distance: float = 0.2  # largest Procrustes distance of pseudo-pairs


@dataclass(frozen=True)
class AugmentConfig:
    """How pairs vary."""

    mirror: float = 0.5  # probability
    swap: float = 0.5
    mirror_target: float = 0.0  # the target alone, where names of points tell left from right
    augmentations: int = 1  # different crops and colours of each image; 1: the image as it is
    crop: float = 0.0  # largest fraction of a side that is cut off
    colour: float = 0.0  # largest change of brightness, contrast and saturation, on a logarithmic scale


@dataclass(frozen=True)
class OptimiserConfig:
    """How the loss is minimised."""

    kind: str = "adamw"  # adamw, sgd
    rate: float = 1e-3
    gate_factor: float = 1.0  # the gates' rate is that many times as high
    lora_factor: float = 1.0  # that of low-rank updates of the backbone
    momentum: float = 0.5  # of sgd
    decay: float = 0.0
    schedule: str = "one-cycle"  # one-cycle, constant
    ema: float = 0.0  # decay of the moving average of weights that is validated and kept; 0: none


@dataclass(frozen=True)
class RunConfig:
    """How long, where."""

    epochs: int = 10
    batch: int = 8
    seed: int = 0
    save_every: int = 20  # steps between checkpoints
    cache_gb: float = 40.0  # bound on the folder of backbone features
    device: str = "cpu"


@dataclass(frozen=True)
class Config:
    """A whole recipe; see :func:`config_of`."""

    name: str = "model"
    about: str = ""  # one line for people
    model: ModelConfig = field(default_factory=ModelConfig)
    head: Any = None  # the method's settings
    loss: Any = None  # the settings of its objective
    data: DataConfig = field(default_factory=DataConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    run: RunConfig = field(default_factory=RunConfig)


CHOICES = {"optimiser.kind": ("adamw", "sgd"), "optimiser.schedule": ("one-cycle", "constant")}
MANY = 10**9
RANGES = {  # lowest and highest value
    "data.holdout": (0, 0.9),
    "data.holdout_images": (0, MANY),
    "data.per_epoch": (0, MANY),
    "data.group_images": (0, 64),
    "data.validation_pairs": (1, MANY),
    "data.pseudo_distance": (0, 1),
    "augment.mirror": (0, 1),
    "augment.mirror_target": (0, 1),
    "augment.swap": (0, 1),
    "augment.augmentations": (1, 64),
    "augment.crop": (0, 0.7),
    "augment.colour": (0, 1),
    "optimiser.rate": (0, 1000),
    "optimiser.gate_factor": (0, 1000),
    "optimiser.lora_factor": (0, 1000),
    "optimiser.momentum": (0, 1),
    "optimiser.decay": (0, 1000),
    "optimiser.ema": (0, 0.99999),
    "run.epochs": (1, MANY),
    "run.batch": (1, MANY),
    "run.seed": (0, MANY),
    "run.save_every": (1, MANY),
    "run.cache_gb": (0, MANY),
}
RENAMED = {  # keys of older recipes
    "model.gating": "head.gating",
    "model.transform": "head.transform",
    "model.hough": "head.hough, one of exact, published and none",
    "model.once": "head.gate_power, 1 for true and 2 for false",
    "model.motion": "head.revote",
    "data.alike": "data.pseudo_distance",
    "augment.views": "augment.augmentations",
    "loss.spread": "loss.target_sigma",
    "optimiser.statistics": "loss.bn_mode",
    "optimiser.average": "optimiser.ema",
}
REMOVED = {
    "model.closer": "crop-and-rematch gained nothing on held-out pairs",
    "run.mixed_precision": "the head is too small to gain from it",
}


@cache
def config_of(method: type[Method]) -> type[Config]:
    """The recipes of a method: with its own sections ``head`` and ``loss``."""
    own = [("head", method.Config), ("loss", method.Objective)]
    sections = [(name, kind, field(default_factory=kind)) for name, kind in own]
    return make_dataclass("Config", sections, bases=(Config,), frozen=True)


def make_config(content: Mapping[str, Any], place: str) -> Config:
    """A configuration from nested dictionaries; ``place`` is named in errors."""
    for key, new in RENAMED.items():
        if _has(content, key):
            raise InputError(f"{place}: {key} is now {new}")
    for key, reason in REMOVED.items():
        if _has(content, key):
            raise InputError(f"{place}: {key} is gone, leave it out: {reason}")
    model = content.get("model")
    name = model.get("method", ModelConfig.method) if isinstance(model, Mapping) else ModelConfig.method
    try:
        method = find_method(str(name))
    except InputError as error:
        raise InputError(f"{place}: {error}") from None
    if method.losses is Method.losses:
        raise InputError(f"{place}: model.method = {name!r} has nothing to train")
    config = from_mapping(config_of(method), content, place)  # type: ignore[arg-type]  # a class has a hash
    _check(config, method, place)
    return config


def _has(content: Mapping[str, Any], key: str) -> bool:
    section, _, name = key.partition(".")
    return isinstance(content.get(section), Mapping) and name in content[section]


def _check(config: Config, method: type[Method], place: str) -> None:
    for key, choices in (CHOICES | {"model.init": method.inits}).items():
        value = _look_up(config, key)
        if value not in choices:
            raise InputError(f"{place}: {key} = {value!r}; wanted: {' or '.join(choices)}")
    for key, (low, high) in RANGES.items():
        value = _look_up(config, key)
        if not low <= value <= high:
            raise InputError(f"{place}: {key} = {value}; wanted from {low} to {high}")
    try:
        find_backbone(config.model.backbone)
        check_size(config.model.size)
    except InputError as error:
        raise InputError(f"{place}: {error}") from None
    if not config.data.train:
        raise InputError(f"{place}: data.train is empty; name what to train on, such as 'pf-pascal/val'")
    for name in config.data.train:
        if name.startswith("alike:"):
            raise InputError(f"{place}: data.train: {name} is now pseudo:{name.removeprefix('alike:')}")
    if not re.fullmatch(r"\w[\w .+-]*", config.name):
        raise InputError(
            f"{place}: name = {config.name!r}; wanted a plain name, which becomes the run's folder"
        )


def _look_up(config: Config, key: str) -> Any:
    section, _, name = key.partition(".")
    return getattr(getattr(config, section), name)


def differences(one: Mapping[str, Any], other: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Keys whose values differ between two nested dictionaries."""
    found = []
    for key in sorted({*one, *other}):
        a, b = one.get(key), other.get(key)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            found += differences(a, b, f"{prefix}{key}.")
        elif a != b:
            found.append(prefix + key)
    return found
