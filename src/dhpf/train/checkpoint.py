"""A run on disk: the best and the last head, and all that is needed to resume exactly where it stopped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor, nn

from ..errors import InputError
from ..files import write_atomically
from .config import Config, differences

FORMAT = "dhpf-training"
STATE, BEST, LAST = "state.safetensors", "best.safetensors", "last.safetensors"
FREE_TO_CHANGE = {"about", "data.root", "run.cache_gb", "run.device", "run.save_every"}


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
        f"{prefix}.{key}": value.detach().cpu().clone().contiguous()
        for prefix, module in modules.items()
        for key, value in module.state_dict().items()
    }
    for number, state in optimiser.state_dict()["state"].items():
        for key, value in state.items():
            tensors[f"optimiser.{number}.{key}"] = torch.as_tensor(value).detach().cpu().clone().contiguous()
    about = {"config": asdict(config), "progress": asdict(progress), "commit": commit}
    content = save(tensors, {"format": FORMAT, "about": json.dumps(about)})
    write_atomically(folder / STATE, lambda place: place.write_bytes(content))


def load_state(
    folder: Path, config: Config, modules: Mapping[str, nn.Module], optimiser: torch.optim.Optimizer
) -> Progress:
    """Resume from the file; it must be of the same recipe."""
    about, tensors = _read(folder / STATE)
    before, now = about["config"], json.loads(json.dumps(asdict(config)))
    changed = [key for key in differences(before, now) if key not in FREE_TO_CHANGE]
    if changed:
        raise InputError(
            f"{folder} holds a run with other settings ({', '.join(changed)}); "
            "resume it with the same recipe, or choose another --out"
        )
    try:
        for prefix, module in modules.items():
            start = f"{prefix}."
            own = {key.removeprefix(start): v for key, v in tensors.items() if key.startswith(start)}
            module.load_state_dict(own)
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            kind, number, *name = key.split(".")
            if kind == "optimiser":
                state.setdefault(int(number), {})[name[0]] = value
        optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
        return Progress(**about["progress"])
    except (RuntimeError, ValueError, KeyError, TypeError, IndexError):
        raise InputError(f"{folder / STATE} does not fit this recipe, or was changed; choose another --out") from None


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What a state file says of itself, and its tensors."""
    damaged = InputError(f"{path} is not a training state of this program, or it is damaged; choose another --out")
    try:
        with safe_open(path, "pt") as stream:
            metadata = stream.metadata() or {}
        if metadata.get("format") != FORMAT:
            raise damaged
        about = json.loads(metadata["about"])
        if not isinstance(about, dict) or not isinstance(about.get("config"), dict):
            raise damaged
        return about, load_file(path)
    except (SafetensorError, OSError, ValueError, KeyError, RecursionError):
        raise damaged from None
