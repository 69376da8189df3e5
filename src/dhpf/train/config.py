"""A run's configuration: frozen and typed. An unknown key is an error that names the nearest."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, TypeVar, get_type_hints

from ..errors import InputError, unknown


@dataclass(frozen=True)
class ModelConfig:
    """What is trained."""

    backbone: str = "resnet50-msra"
    size: tuple[int, int] = (240, 240)  # width, height of the network's input
    gating: str = "gumbel"  # gumbel, sigmoid, none (all layers)
    transform: bool = True
    hough: bool = True
    once: bool = True  # the gate enters the correlation once, so that layers that are off learn too
    motion: bool = False  # matches vote again, for offsets from the affine motion that they share
    closer: bool = False  # the head, when it is used, looks closer at what both photos show
    init: str = "random"  # random, or principal: transformations begin as principal directions of features
    start: str = ""  # a model or head file to begin with


@dataclass(frozen=True)
class DataConfig:
    """Which pairs."""

    root: str = ""  # the folder of the data sets' folders; by default where 'dhpf data download' puts them
    train: tuple[str, ...] = ("pf-pascal/val",)  # data set/split, alike:…, folder:PATH for synthetic
    validate: tuple[str, ...] = ()  # data set/split of their own, beside what is held out
    exclude: tuple[str, ...] = ("pf-pascal/test",)  # pairs of these are never trained on or validated on
    holdout: float = 0.2  # share of the groups of connected pairs that is kept for validation
    holdout_images: int = 0  # instead, where all pairs are connected: images of each category
    per_epoch: int = 0  # pairs drawn from each data set in an epoch; 0: all
    validation_pairs: int = 100  # at most, of each data set
    alike: float = 0.2  # how much the shapes of points may differ in alike:DATA SET/SPLIT


@dataclass(frozen=True)
class AugmentConfig:
    """How pairs vary."""

    mirror: float = 0.5  # probability
    swap: float = 0.5
    views: int = 1  # different cuts and colours of each photo; 1: the photo as it is
    crop: float = 0.0  # largest share of a side that is cut off
    colour: float = 0.0  # largest change of brightness, contrast and saturation, on a logarithmic scale


@dataclass(frozen=True)
class LossConfig:
    """What is minimised."""

    objective: str = "strong"  # strong, weak; synthetic pairs have true points and are trained strongly
    omega: bool = True  # weigh points by how wrong they are, eq. (3)
    select: float = 1.0  # weight of the layer-rate loss; 0: without
    mu: float = 0.5  # the layer rate
    l1: float = 0.0  # weight of the gates' mean, for sparse soft gates
    spread: float = 0.0  # the target is a Gaussian of that many cells instead of a single one
    dropout: float = 0.0  # share of the transformed channels that is left out in a step


@dataclass(frozen=True)
class OptimiserConfig:
    """How it is minimised."""

    kind: str = "adamw"  # adamw, sgd
    rate: float = 1e-3
    gate_factor: float = 1.0  # the gates' rate is that many times as high
    momentum: float = 0.5  # of sgd
    decay: float = 0.0
    schedule: str = "one-cycle"  # one-cycle, constant
    statistics: str = "gates"  # whose batch norms use the batch's: all, as published; the gates alone; none
    average: float = 0.0  # decay of the running average of weights that is validated and kept; 0: none


@dataclass(frozen=True)
class RunConfig:
    """How long, where."""

    epochs: int = 10
    batch: int = 8
    seed: int = 0
    save_every: int = 20  # steps between checkpoints
    cache_gb: float = 40.0  # bound on the folder of backbone features
    device: str = "cpu"
    mixed_precision: bool = False  # on CUDA


@dataclass(frozen=True)
class Config:
    """A whole recipe."""

    name: str = "model"
    about: str = ""  # one line for people
    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    run: RunConfig = field(default_factory=RunConfig)


CHOICES = {
    "model.gating": ("gumbel", "sigmoid", "none"),
    "model.init": ("random", "principal"),
    "loss.objective": ("strong", "weak"),
    "optimiser.kind": ("adamw", "sgd"),
    "optimiser.schedule": ("one-cycle", "constant"),
    "optimiser.statistics": ("all", "gates", "none"),
}
RANGES = {  # lowest and highest value
    "data.holdout": (0, 0.9),
    "data.holdout_images": (0, None),
    "data.per_epoch": (0, None),
    "data.validation_pairs": (1, None),
    "data.alike": (0, 1),
    "augment.mirror": (0, 1),
    "augment.swap": (0, 1),
    "augment.views": (1, 64),
    "augment.crop": (0, 0.7),
    "augment.colour": (0, 1),
    "loss.select": (0, None),
    "loss.mu": (0, 1),
    "loss.l1": (0, None),
    "loss.spread": (0, 20),
    "loss.dropout": (0, 0.9),
    "optimiser.rate": (0, None),
    "optimiser.gate_factor": (0, None),
    "optimiser.momentum": (0, 1),
    "optimiser.decay": (0, None),
    "optimiser.average": (0, 0.99999),
    "run.epochs": (1, None),
    "run.batch": (1, None),
    "run.seed": (0, 2**31),
    "run.save_every": (1, None),
    "run.cache_gb": (0, None),
}


def make_config(content: Mapping[str, Any], place: str) -> Config:
    """A configuration from nested dictionaries; ``place`` is named in errors."""
    config = _build(Config, content, place, "")
    for key, choices in CHOICES.items():
        value = _look_up(config, key)
        if value not in choices:
            raise unknown(f"value of {key} in {place}", value, choices)
    for key, (low, high) in RANGES.items():
        value = _look_up(config, key)
        if not (value >= low and (high is None or value <= high)):
            limits = f"at least {low}" if high is None else f"from {low} to {high}"
            raise InputError(f"{place}: {key} = {value}; wanted {limits}")
    if not config.data.train:
        raise InputError(f"{place}: data.train is empty; name what to train on, such as 'pf-pascal/val'")
    if config.model.gating == "none" and not config.model.transform:
        raise InputError(f"{place}: nothing to learn: model.gating = none and model.transform = false")
    if config.model.motion and not config.model.hough:
        raise InputError(f"{place}: model.motion = true votes again; it wants model.hough = true")
    return config


Section = TypeVar("Section")


def _build(kind: type[Section], content: Mapping[str, Any], place: str, prefix: str) -> Section:
    hints = get_type_hints(kind)
    values = {}
    for key, value in content.items():
        name = prefix + key
        if key not in hints:
            near = _nearest(name)
            known = ", ".join(prefix + known for known in hints)
            raise InputError(f"unknown key in {place} '{name}': did you mean '{near}'? Known: {known}")
        if is_dataclass(hints[key]):
            if not isinstance(value, Mapping):
                raise InputError(f"{place}: {name} = {value!r}; wanted a table of settings")
            values[key] = _build(hints[key], value, place, f"{name}.")
        else:
            values[key] = _typed(value, hints[key], f"{place}: {name}")
    return kind(**values)


def _nearest(name: str) -> str:
    """The key that was meant: one of the same name in another section, or else the most alike."""
    keys = [
        f"{part.name}.{one.name}" if is_dataclass(kind) else part.name
        for part in fields(Config)
        for kind in [get_type_hints(Config)[part.name]]
        for one in (fields(kind) if is_dataclass(kind) else [part])
    ]
    same = [key for key in keys if key.rpartition(".")[2] == name.rpartition(".")[2]]
    return difflib.get_close_matches(name.lower(), same or keys, n=1, cutoff=0.0)[0]


def _typed(value: Any, wanted: Any, name: str) -> Any:
    """The value as the wanted type, or an error. A whole number may stand for a float, nothing else mixes."""
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
    if wanted in words:
        if wanted is float and type(value) is int:
            return float(value)
        if type(value) is not wanted:
            raise InputError(f"{name} = {value!r}; wanted {words[wanted]}")
        if wanted is float and not math.isfinite(value):
            raise InputError(f"{name} = {value!r}; wanted a finite number")
        return value
    element = wanted.__args__[0]
    any_number = wanted.__args__[-1] is Ellipsis
    fits = isinstance(value, (list, tuple)) and all(type(item) is element for item in value)
    if not fits or not (any_number or len(value) == len(wanted.__args__)):
        kind = "a list of texts" if any_number else "two whole numbers, such as [240, 240]"
        raise InputError(f"{name} = {value!r}; wanted {kind}")
    return tuple(value)


def _look_up(config: Config, key: str) -> Any:
    value: Any = config
    for name in key.split("."):
        value = getattr(value, name)
    return value


def differences(one: Mapping[str, Any], other: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Keys whose values differ between two nested dictionaries."""
    found = []
    for key in [f.name for f in fields(Config)] if not prefix else sorted({*one, *other}):
        a, b = one.get(key), other.get(key)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            found += differences(a, b, f"{prefix}{key}.")
        elif a != b:
            found.append(prefix + key)
    return found
