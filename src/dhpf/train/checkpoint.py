"""A run on disk: the best and the last head, and all that is needed to go on exactly where it stopped."""

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
from ..model.checkpoint import save_head
from ..model.network import DHPF
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


def save_state(
    folder: Path,
    config: Config,
    commit: str,
    progress: Progress,
    modules: Mapping[str, nn.Module],
    optimiser: torch.optim.Optimizer,
) -> None:
    """Write the file to go on from: all of it, or nothing."""
    tensors = {
        f"{prefix}.{key}": value.detach().clone().contiguous()
        for prefix, module in modules.items()
        for key, value in module.state_dict().items()
    }
    for number, state in optimiser.state_dict()["state"].items():
        for key, value in state.items():
            tensors[f"optimiser.{number}.{key}"] = torch.as_tensor(value).detach().clone().contiguous()
    about = {"config": asdict(config), "progress": asdict(progress), "commit": commit}
    content = save(tensors, {"format": FORMAT, "about": json.dumps(about)})
    write_atomically(folder / STATE, content)


def load_state(
    folder: Path, config: Config, modules: Mapping[str, nn.Module], optimiser: torch.optim.Optimizer
) -> Progress:
    """Go on from the file; it must be of the same recipe."""
    about = read_about(folder / STATE)
    before, now = about["config"], json.loads(json.dumps(asdict(config)))
    changed = [key for key in differences(before, now) if key not in FREE_TO_CHANGE]
    if changed:
        raise InputError(
            f"{folder} holds a run with other settings ({', '.join(changed)}); "
            "resume it with the same recipe, or choose another --out"
        )
    tensors = load_file(folder / STATE)
    for prefix, module in modules.items():
        own = {
            key.removeprefix(f"{prefix}."): v for key, v in tensors.items() if key.startswith(f"{prefix}.")
        }
        module.load_state_dict(own)
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        kind, number, *name = key.split(".")
        if kind == "optimiser":
            state.setdefault(int(number), {})[name[0]] = value
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
    return Progress(**about["progress"])


def read_about(path: Path) -> dict[str, Any]:
    """What a state file says of itself."""
    try:
        with safe_open(path, "pt") as stream:
            metadata = stream.metadata() or {}
    except (SafetensorError, OSError):
        raise InputError(f"{path} is not a training state, or it is damaged; choose another --out") from None
    if metadata.get("format") != FORMAT:
        raise InputError(f"{path} is not a training state of this program; choose another --out")
    about: dict[str, Any] = json.loads(metadata["about"])
    return about


def save_trained(
    path: Path,
    network: DHPF,
    head: nn.Module,
    config: Config,
    commit: str,
    progress: Progress,
    training_images: list[str] | None,
) -> None:
    """Write a head that ``--model`` takes, which says how it was made.

    Parameters
    ----------
    training_images
        Names of all photos that it has learned from; None if they are not known.
    """
    metadata = {
        "backbone": config.model.backbone,
        "kind": json.dumps(asdict(network.kind)),
        "config": json.dumps(asdict(config)),
        "commit": commit,
        "metrics": json.dumps(progress.history[-1] if progress.history else {}),
        "hours": f"{progress.seconds / 3600:.2f}",
    }
    if training_images is not None:
        metadata["training_images"] = "\n".join(training_images)
    state = {k: v for k, v in head.state_dict().items() if not k.endswith("num_batches_tracked")}
    save_head(path, state, metadata)
