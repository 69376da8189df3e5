"""Head files: the learned gates and transformations, in safetensors, and the import of published ones."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from ..errors import InputError, unknown
from ..files import check_writable, write_atomically
from .backbone import BOTTLENECKS, ResNet
from .gating import GATINGS
from .models import DEFAULT_MODEL, MODELS
from .network import DHPF, HPF, HeadKind, HyperpixelFlow
from .weights import BACKBONES, load_backbone, load_strictly, read_state

FORMAT = "dhpf-head"
VERSION = "1"


def load_network(model: str = DEFAULT_MODEL, backbone: Path | None = None) -> HyperpixelFlow:
    """Build the named model, or the one whose head is in the given file, ready for inference.

    Parameters
    ----------
    model
        A name from ``dhpf models`` or the path of a head file (``.safetensors``).
    backbone
        A local file with the backbone's weights, instead of the bundled or downloaded ones.
    """
    if model in MODELS:
        entry = MODELS[model]
        if entry.head is not None:
            return load_head(entry.head, backbone)
        return HPF(load_backbone(entry.backbone, backbone), entry.layers).eval()
    path = Path(model)
    if not path.suffix and not path.is_file():
        raise unknown("model", model, MODELS)
    if path.exists() and path.suffix in (".pt", ".pth"):
        command = f"dhpf import-checkpoint {path} OUT.safetensors"
        raise InputError(f"{path} is not a head file; import a published checkpoint first: {command}")
    return load_head(path, backbone)


def load_head(path: Path, backbone: Path | None = None) -> DHPF:
    """Read a head file and put it on the backbone that it names."""
    metadata = read_metadata(path)
    network = _load_on_empty_backbone(read_state(path), metadata["backbone"], path, head_kind(metadata, path))
    network.backbone = load_backbone(metadata["backbone"], backbone)
    return network.folded()


def load_head_for_training(model: str, backbone: str, kind: HeadKind) -> DHPF:
    """A head to begin training with, not folded: a model's name or a head file, of the given kind."""
    path = (MODELS[model].head if model in MODELS else None) or Path(model)
    metadata = read_metadata(path)
    theirs = head_kind(metadata, path)
    if metadata["backbone"] != backbone or (theirs.gating, theirs.transform) != (kind.gating, kind.transform):
        raise InputError(
            f"{path} is a head of another kind ({metadata['backbone']}, {theirs}); "
            f"wanted {backbone}, {kind}; begin with another head, or with none: model.start="
        )
    network = _load_on_empty_backbone(read_state(path), backbone, path, kind)
    network.backbone = load_backbone(backbone)
    return network


def head_kind(metadata: Mapping[str, str], path: Path) -> HeadKind:
    """The variant that a head file says it is; as published if it says nothing."""
    try:
        kind = HeadKind(**json.loads(metadata.get("kind", "{}")))
    except (ValueError, TypeError):
        raise InputError(f"{path} describes its kind in a way that this program does not know") from None
    if kind.gating not in GATINGS:
        raise unknown(f"gating in {path}", kind.gating, GATINGS)
    return kind


def _load_on_empty_backbone(
    state: Mapping[str, Tensor], backbone: str, path: Path, kind: HeadKind | None = None
) -> DHPF:
    """The head on a backbone without weights, which is all it takes to see whether it fits."""
    with torch.device("meta"):
        network = DHPF(ResNet(BACKBONES[backbone].depth), kind)
    load_strictly(network.head(), state, f"{path} does not fit {backbone}")
    return network


def save_head(path: Path, state: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write a head file: all of it, or nothing."""
    tensors = {key: value.clone().contiguous() for key, value in state.items()}
    content = save(tensors, {"format": FORMAT, "version": VERSION, **metadata})
    write_atomically(path, content)


def read_metadata(path: Path) -> dict[str, str]:
    """What a head file says of itself."""
    if not path.is_file():
        raise InputError(f"no such model file: {path}")
    try:
        with safe_open(path, "pt") as stream:
            metadata: dict[str, str] = stream.metadata() or {}
    except (SafetensorError, OSError):
        raise InputError(f"{path} is not a safetensors file, or it is damaged") from None
    if metadata.get("format") != FORMAT:
        raise InputError(f"{path} is not a dhpf head; make one with 'dhpf import-checkpoint' or by training")
    if metadata.get("version") != VERSION:
        raise InputError(f"{path} has head version {metadata.get('version')}; this program reads {VERSION}")
    if metadata.get("backbone") not in BACKBONES:
        raise unknown(f"backbone in {path}", str(metadata.get("backbone")), BACKBONES)
    return metadata


def import_published(source: Path, out: Path, backbone: str | None = None) -> str:
    """Convert a checkpoint of the published implementation to a head file.

    Parameters
    ----------
    source
        Its ``.pt`` file, with keys such as ``reduction_ffns.0.0.weight`` and ``gumbel_ffns.0.0.weight``.
    out
        The head file to write, ``.safetensors``.
    backbone
        The backbone that it was trained on; by default torchvision's of the right depth, as published.

    Returns
    -------
    The name of the backbone.
    """
    if out.suffix != ".safetensors":
        raise InputError(f"{out}: the output must end in .safetensors")
    check_writable(out)
    state = _renamed(read_state(source), source)
    layers = len({key.split(".")[1] for key in state if key.startswith("transforms.")})
    depths = {1 + sum(counts): depth for depth, counts in BOTTLENECKS.items()}
    if layers not in depths:
        raise InputError(f"{source} has {layers} layers; wanted 17 (ResNet-50) or 34 (ResNet-101)")
    backbone = backbone or f"resnet{depths[layers]}"
    if backbone not in BACKBONES:
        raise unknown("backbone", backbone, BACKBONES)
    _load_on_empty_backbone(state, backbone, source)
    state = {key: value for key, value in state.items() if not key.endswith("num_batches_tracked")}
    save_head(out, state, {"backbone": backbone, "origin": f"imported from {source.name}"})
    return backbone


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
