"""A run on disk: the best and the last head, and all that is needed to resume exactly where it stopped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InputError
from ..files import write_atomically
from .config import Config, differences
from .sealed import seal, unseal

FORMAT = "dhpf-training-2"
STATE, BEST, LAST = "state.safetensors", "best.safetensors", "last.safetensors"
FREE_TO_CHANGE = {"name", "about", "data.root", "run.cache_gb", "run.device", "run.save_every"}


@dataclass
class Progress:
    """How far a run is."""

    epoch: int = 0
    step: int = 0  # in the epoch
    seconds: float = 0.0
    best: float = -1.0  # mean validation PCK of the best epoch
    history: list[dict[str, float]] = field(default_factory=list)  # one entry an epoch
    sums: dict[str, float] = field(default_factory=dict)  # of the terms of this epoch's steps


def save_state(
    folder: Path,
    config: Config,
    commit: str,
    progress: Progress,
    modules: Mapping[str, nn.Module],
    optimiser: torch.optim.Optimizer,
) -> None:
    """Write the file to resume from: all of it, or nothing."""
    tensors = {
        f"{prefix}.{key}": value
        for prefix, part in modules.items()
        for key, value in part.state_dict().items()
    }
    for number, state in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{number}.{key}": value for key, value in state.items()}
    held = {key: value.detach().cpu().clone().contiguous() for key, value in tensors.items()}
    about = {"format": FORMAT, "config": asdict(config), "progress": asdict(progress), "commit": commit}
    content = seal(held, about)
    write_atomically(folder / STATE, content)


def load_state(
    folder: Path, config: Config, modules: Mapping[str, nn.Module], optimiser: torch.optim.Optimizer
) -> Progress:
    """Resume from the file; it must be of the same recipe."""
    about, tensors = read_state(folder)
    now = json.loads(json.dumps(asdict(config)))
    free = FREE_TO_CHANGE | ({"run.epochs"} if config.optimiser.schedule == "constant" else set())
    changed = [key for key in differences(about["config"], now) if key not in free]
    if changed:
        raise InputError(
            f"{folder} holds a run with other settings ({', '.join(changed)}); "
            "resume it with the same recipe, or choose another --out"
        )
    states: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        if key.startswith("optimiser."):
            _, number, name = key.split(".")
            states.setdefault(int(number), {})[name] = value
    for prefix, module in modules.items():
        own = {
            key.removeprefix(f"{prefix}."): v for key, v in tensors.items() if key.startswith(f"{prefix}.")
        }
        module.load_state_dict(own)
    optimiser.load_state_dict({"state": states, "param_groups": optimiser.state_dict()["param_groups"]})
    return Progress(**about["progress"])


def read_state(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What a run's state says of itself, and its tensors."""
    found = unseal(folder / STATE)
    if found is None or not isinstance(found[1], dict) or found[1].get("format") != FORMAT:
        raise InputError(
            f"{folder / STATE} is no training state of this program, or it is damaged; choose another --out"
        )
    tensors, about = found
    return about, tensors
