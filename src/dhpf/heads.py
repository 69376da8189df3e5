"""Head files: what a method learned and how it behaves, in safetensors; and the import of published ones."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from .backbones.base import Backbone
from .backbones.weights import BACKBONES, find_backbone, load_backbone, load_strictly, read_state
from .errors import InputError
from .files import check_writable, write_atomically
from .methods import find_method
from .methods.base import Method
from .methods.dhpf import DHPF, DHPFConfig
from .settings import from_mapping

FORMAT = "dhpf-head"
VERSION = "2"
PUBLISHED = DHPFConfig(hough="published")  # how the published code matches


def load_head(path: Path, backbone: Path | None = None) -> Method:
    """Read a head file and put it on the backbone that it names, ready for inference.

    Parameters
    ----------
    backbone
        A local file with the backbone's weights, instead of the bundled or downloaded ones.
    """
    method = _on_empty_backbone(path)
    method.backbone = load_backbone(read_metadata(path)["backbone"], backbone)
    return method.for_inference()


def load_head_for_training(path: Path, method: str, backbone: str, config: Any) -> Method:
    """A head to begin training with: of the given method, backbone and, where weights depend on it, config."""
    metadata = read_metadata(path)
    theirs, ours = (metadata["method"], metadata["backbone"]), (method, backbone)
    if theirs != ours:
        raise InputError(
            f"{path} is a head of another kind ({', '.join(theirs)}); wanted {', '.join(ours)}; "
            "begin with another head, or with none: model.start="
        )
    with torch.device("meta"):
        network = find_method(method)(find_backbone(backbone).build(), config)
    load_strictly(network.head(), read_state(path), f"{path} does not fit these settings of the head")
    network.backbone = load_backbone(backbone)
    return network


def _on_empty_backbone(path: Path) -> Method:
    """The head on a backbone without weights, which is all it takes to see whether it fits."""
    metadata = read_metadata(path)
    kind = find_method(metadata["method"])
    config = from_mapping(kind.Config, _json(metadata, "config", path), f"{path}, config")
    with torch.device("meta"):
        method = kind(find_backbone(metadata["backbone"]).build(), config)
    load_strictly(method.head(), read_state(path), f"{path} does not fit {metadata['backbone']}")
    if not method.is_finite():
        raise InputError(f"{path} computes values that are infinite or no numbers; train or get it again")
    return method


def save_head(path: Path, method: Method, backbone: str, state: Mapping[str, Tensor], **about: str) -> None:
    """Write a head file: all of it, or nothing.

    Parameters
    ----------
    state
        Of the method's head, perhaps averaged or rounded.
    about
        More to be kept: how it was made.
    """
    metadata = {
        "format": FORMAT,
        "version": VERSION,
        "method": method.name,
        "backbone": backbone,
        "config": json.dumps(asdict(method.config)),
        **about,
    }
    tensors = {
        key: value.detach().cpu().clone().contiguous()
        for key, value in state.items()
        if not key.endswith("num_batches_tracked")
    }
    content = save(tensors, metadata)
    write_atomically(path, lambda place: place.write_bytes(content))


def read_metadata(path: Path) -> dict[str, str]:
    """What a head file says of itself."""
    if not path.is_file():
        raise InputError(f"no such model file: {path}")
    if path.suffix in (".pt", ".pth"):
        command = f"dhpf import-checkpoint {path} OUT.safetensors"
        raise InputError(f"{path} is not a head file; import a published checkpoint first: {command}")
    try:
        with safe_open(path, "pt") as stream:
            metadata: dict[str, str] = stream.metadata() or {}
    except (SafetensorError, OSError):
        raise InputError(f"{path} is not a safetensors file, or it is damaged") from None
    if metadata.get("format") != FORMAT:
        raise InputError(f"{path} is not a dhpf head; make one with 'dhpf import-checkpoint' or by training")
    if metadata.get("version") != VERSION:
        raise InputError(f"{path} has head version {metadata.get('version')}; this program reads {VERSION}")
    missing = [key for key in ("method", "backbone", "config") if key not in metadata]
    if missing:
        raise InputError(f"{path} does not say its {', '.join(missing)}; train or import it again")
    return metadata


def _json(metadata: Mapping[str, str], key: str, path: Path) -> Any:
    try:
        return json.loads(metadata[key])
    except (ValueError, RecursionError):
        raise InputError(f"{path}: its {key} is not valid JSON; train or import it again") from None


def import_published(source: Path, out: Path, backbone: str | None = None) -> str:
    """Convert a checkpoint of the published implementation to a head file.

    Parameters
    ----------
    source
        Its ``.pt`` file, with keys such as ``reduction_ffns.0.0.weight`` and ``gumbel_ffns.0.0.weight``.
    out
        The head file to write, ``.safetensors``.
    backbone
        The backbone that it was trained on; by default torchvision's whose layers fit, as published.

    Returns
    -------
    The name of the backbone.
    """
    if out.suffix != ".safetensors":
        raise InputError(f"{out}: the output must end in .safetensors")
    check_writable(out)
    state = _renamed(read_state(source), source)
    if backbone is None:
        backbone = _fitting(state, source)
    with torch.device("meta"):
        method = DHPF(find_backbone(backbone).build(), PUBLISHED)
    load_strictly(method.head(), state, f"{source} does not fit {backbone}")
    save_head(out, method, backbone, state, origin=f"imported from {source.name}")
    return backbone


def _fitting(state: Mapping[str, Tensor], source: Path) -> str:
    """The published backbone that has layers of the checkpoint's sizes."""
    weights = {key: value for key, value in state.items() if re.fullmatch(r"transforms\.\d+\.0\.weight", key)}
    channels = [weights[key].shape[1] for key in sorted(weights, key=lambda key: int(key.split(".")[1]))]
    known: dict[str, Backbone] = {name: entry.build() for name, entry in BACKBONES.items() if entry.published}
    for name, network in known.items():
        if list(network.channels) == channels:
            return name
    wanted = ", ".join(f"{len(network.channels)} ({name})" for name, network in known.items())
    raise InputError(f"{source} has {len(channels)} layers that fit no backbone; wanted {wanted}")


def _renamed(published: Mapping[str, Tensor], source: Path) -> dict[str, Tensor]:
    """Published key names to ours; the gates' 1x1 convolutions on pooled features are linear layers here."""
    names = {"reduction_ffns": "transforms", "gumbel_ffns": "gates.perceptrons"}
    state = {}
    for key, value in published.items():
        found = re.fullmatch(r"(reduction_ffns|gumbel_ffns)\.(\d+\.\d+\.\w+)", key)
        if found is None:
            raise InputError(f"{source} is not a published DHPF checkpoint: unknown key {key}")
        gate_weight = found[1] == "gumbel_ffns" and value.ndim == 4
        state[f"{names[found[1]]}.{found[2]}"] = value.flatten(1) if gate_weight else value
    return state
