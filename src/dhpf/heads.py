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
from .backbones.state import load_state, load_strictly, read_state
from .backbones.weights import BACKBONES, find_backbone, load_backbone
from .errors import InputError
from .files import check_outputs, write_atomically
from .methods import find_method
from .methods.base import Method
from .methods.dhpf import DHPF, DHPFConfig
from .settings import from_mapping

FORMAT = "dhpf-head"
VERSION = "2"
LARGEST = 2**30  # bytes: hundreds of times the published ones
PUBLISHED = DHPFConfig(hough="published")  # how the published code matches


def load_head(path: Path, backbone: Path | None = None) -> Method:
    """Read a head file and put it on the backbone that it names, ready for inference.

    Parameters
    ----------
    backbone
        A local file with the backbone's weights, instead of the bundled or downloaded ones.
    """
    method = read_head(path)
    method.backbone = load_backbone(read_metadata(path)["backbone"], backbone)
    return method.for_inference()


def load_head_for_training(path: Path, method: str, backbone: str, config: Any) -> Method:
    """A head to begin training with, whose weights fit the config: of that backbone and of that method, or of
    one that it extends."""
    metadata = read_metadata(path)
    theirs, ours = (metadata["method"], metadata["backbone"]), (method, backbone)
    known = {kind.__dict__.get("name") for kind in find_method(method).__mro__}
    if metadata["method"] not in known or metadata["backbone"] != backbone:
        raise InputError(
            f"{path} is a head of another kind ({', '.join(theirs)}); wanted {', '.join(ours)}; "
            "begin with another head, or with none: model.start="
        )
    network = _empty(method, backbone, config)
    load_state(network.head(), path, f"{path} does not fit these settings of the head")
    _check_finite(network, path)
    network.backbone = load_backbone(backbone)
    return network


def read_head(path: Path) -> Method:
    """The head on a backbone without weights, which is all it takes to see whether it is sound and fits."""
    metadata = read_metadata(path)
    try:
        kind = find_method(metadata["method"])
        content = json_in(metadata, "config", path)
        method = _empty(kind.name, metadata["backbone"], from_mapping(kind.Config, content, "its config"))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    load_state(method.head(), path, f"{path} does not fit {metadata['backbone']}")
    _check_finite(method, path)
    return method


def _empty(method: str, backbone: str, config: Any) -> Method:
    """A method without weights."""
    with torch.device("meta"):  # no time spent on random initial values
        return find_method(method)(find_backbone(backbone).build(), config)


def _check_finite(method: Method, path: Path) -> None:
    if not method.is_finite():
        raise InputError(f"{path} computes values that are infinite or no numbers; train or get it again")


def save_head(path: Path, method: Method, backbone: str, state: Mapping[str, Tensor], **about: str) -> None:
    """Write a head file: all of it, or nothing; see :func:`head_content`."""
    content = head_content(method, backbone, state, **about)
    write_atomically(path, content)


def head_content(method: Method, backbone: str, state: Mapping[str, Tensor], **about: str) -> bytes:
    """What is in a head file.

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
    return save(tensors, metadata)


def read_metadata(path: Path) -> dict[str, str]:
    """What a head file says of itself."""
    if not path.is_file():
        raise InputError(f"no such model file: {path}")
    if path.suffix in (".pt", ".pth"):
        command = f"dhpf import-checkpoint {path} OUT.safetensors"
        raise InputError(f"{path} is not a head file; import a published checkpoint first: {command}")
    if path.stat().st_size > LARGEST:
        raise InputError(f"{path} is too large for a head: wanted at most {LARGEST / 2**20:.0f} MB")
    try:
        with safe_open(path, "pt") as stream:
            metadata: dict[str, str] = stream.metadata() or {}
    except (SafetensorError, OSError, RuntimeError):
        raise InputError(f"{path} is not a safetensors file, or it is damaged") from None
    if metadata.get("format") != FORMAT:
        raise InputError(f"{path} is not a dhpf head; make one with 'dhpf import-checkpoint' or by training")
    version = metadata.get("version")
    if version != VERSION:
        cure = "train or import it again" if version == "1" else "update dhpf"
        raise InputError(f"{path} is a head file of version {version}, this program reads {VERSION}: {cure}")
    missing = [key for key in ("method", "backbone", "config") if key not in metadata]
    if missing:
        raise InputError(f"{path} does not say its {', '.join(missing)}; train or import it again")
    return metadata


def json_in(metadata: Mapping[str, str], key: str, path: Path) -> Any:
    """What the metadata hold as JSON under a key, or an error."""
    try:
        return json.loads(metadata[key])
    except (KeyError, ValueError, RecursionError):
        raise InputError(
            f"{path}: its {key} is missing or not valid JSON; train or import it again"
        ) from None


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
    check_head_name(out)
    check_outputs([out], inputs=[source])
    state = _renamed(read_state(source), source)
    if backbone is None:
        backbone = _fitting(state, source)
    method = _empty(DHPF.name, backbone, PUBLISHED)
    load_strictly(method.head(), state, f"{source} does not fit {backbone}")
    _check_finite(method, source)
    save_head(out, method, backbone, state, origin=f"imported from {source.name}")
    return backbone


def check_head_name(path: Path) -> None:
    """Of a head file that is to be written."""
    if path.suffix != ".safetensors":
        raise InputError(f"{path}: the output must end in .safetensors")


def _fitting(state: Mapping[str, Tensor], source: Path) -> str:
    """The published backbone that has layers of the checkpoint's sizes."""
    weights = {key: value for key, value in state.items() if re.fullmatch(r"transforms\.\d+\.0\.weight", key)}
    ordered = sorted(weights, key=lambda key: int(key.split(".")[1]))
    channels = [weights[key].shape[1] for key in ordered if weights[key].ndim == 4]
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
        found = re.fullmatch(r"(reduction_ffns|gumbel_ffns)\.(\d{1,4}\.\d{1,4}\.\w+)", key)
        if found is None:
            raise InputError(f"{source} is not a published DHPF checkpoint: unknown key {key[:80]}")
        gate_weight = found[1] == "gumbel_ffns" and value.ndim == 4
        state[f"{names[found[1]]}.{found[2]}"] = value.flatten(1) if gate_weight else value
    return state
