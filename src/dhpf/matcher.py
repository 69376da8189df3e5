"""Matcher: photos in, Match out. Pixels of the original photos everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from PIL import Image

from .closer import look_closer
from .errors import InputError
from .images import ImageLike, read_image, to_input
from .match import Match
from .model.backbone import DEVIATION, MEAN
from .model.checkpoint import load_network
from .model.matching import MATRIX_BYTES
from .model.models import DEFAULT_MODEL
from .model.network import Features, HyperpixelFlow

if TYPE_CHECKING:
    import os

DEFAULT_SIZE = (240, 240)
SMALLEST_SIZE, LARGEST_SIZE = 32, 1024


@dataclass(frozen=True, eq=False)
class PhotoFeatures:
    """A photo and what the network of a matcher saw in it."""

    photo: Image.Image
    features: Features = field(repr=False)
    model: str  # the matcher's name

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return self.features.nbytes + 3 * self.photo.width * self.photo.height


class Matcher:
    """Finds correspondences between photos of things of one kind.

    >>> import dhpf
    >>> matcher = dhpf.load()
    >>> match = matcher.match(dhpf.sample("cheetah"), dhpf.sample("cheetah_cub"))
    >>> match.transfer([[88, 92]]).shape  # an eye
    (1, 2)
    """

    def __init__(
        self,
        network: HyperpixelFlow,
        name: str,
        size: tuple[int, int] | int = DEFAULT_SIZE,
        device: str | torch.device = "cpu",
        matrix_bytes: int = MATRIX_BYTES,
    ) -> None:
        """See :func:`load` for the parameters."""
        self.size = check_size(size)
        self.device = check_device(device)
        self.network = network.to(self.device)
        self.name = name
        self.matrix_bytes = matrix_bytes

    def features(self, image: ImageLike, name: str = "image") -> PhotoFeatures:
        """Compute a photo's features once, to match it with many others.

        Parameters
        ----------
        image
            A path, PIL image, array or tensor (see :func:`dhpf.images.read_image`).
        name
            What to call it in errors, where it is not a file.
        """
        photo = read_image(image, name)
        tensor = to_input(photo, self.size, MEAN, DEVIATION).to(self.device)
        return PhotoFeatures(photo, self.network.features(tensor), self.name)

    def match(
        self, source: ImageLike | PhotoFeatures, target: ImageLike | PhotoFeatures, evidence: bool = True
    ) -> Match:
        """Match two photos, or photos whose features are at hand.

        Parameters
        ----------
        source, target
            Paths, PIL images, arrays, tensors (see :func:`dhpf.images.read_image`) or :meth:`features`.
        evidence
            Keep what :meth:`Match.scores` needs. For 240 x 240 pixels it takes up to 10 MB with gates, 18 MB
            with static hyperpixels; do without where many matches are kept.
        """
        a, b = self._seen(source, "source"), self._seen(target, "target")
        result = self.network.match(a.features, b.features, self.matrix_bytes, keep_evidence=evidence)
        grids = a.features.grid, b.features.grid
        closer = None
        if self.network.closer:
            closer = look_closer(
                self.network, (a.photo, b.photo), self.size, result, grids, self.matrix_bytes
            )
        probability = None if result.probability is None else result.probability[0].cpu().numpy()
        return Match(
            source=a.photo,
            target=b.photo,
            best=result.best[0].cpu().numpy(),
            cell_confidence=result.confidence[0].cpu().numpy(),
            grids=grids,
            size=self.size,
            model=self.name,
            layers=result.layers[0],
            layer_probability=probability,
            closer=closer,
            evidence=result.evidence[0] if evidence else None,
        )

    def _seen(self, image: ImageLike | PhotoFeatures, name: str) -> PhotoFeatures:
        """The features of a photo; those at hand must be this matcher's kind."""
        if not isinstance(image, PhotoFeatures):
            return self.features(image, name)
        height, width = image.features.size
        if (image.model, width, height) != (self.name, *self.size):
            theirs, ours = (
                f"{image.model}, {width} x {height}",
                f"{self.name}, {self.size[0]} x {self.size[1]}",
            )
            raise InputError(f"{name} holds features of another matcher ({theirs}); wanted {ours}")
        return image


def load(
    model: str | os.PathLike[str] = DEFAULT_MODEL,
    size: tuple[int, int] | int = DEFAULT_SIZE,
    device: str | torch.device = "cpu",
    backbone: str | os.PathLike[str] | None = None,
    matrix_bytes: int = MATRIX_BYTES,
) -> Matcher:
    """Load a model.

    Parameters
    ----------
    model
        A name from ``dhpf models`` or the path of a head file.
    size
        What photos are resized to for the network: width and height in pixels, or one number for both.
    device
        Where to compute: "cpu", "cuda", "cuda:1".
    backbone
        A local ``.pth`` or ``.safetensors`` with the backbone's weights, instead of the named ones.
    matrix_bytes
        Bound on the memory for the correlation matrix; beyond it, parts are computed again instead of kept.
    """
    sides, place = check_size(size), check_device(device)  # before weights are read or even downloaded
    network = load_network(str(model), None if backbone is None else Path(backbone))
    return Matcher(network, str(model), sides, place, matrix_bytes)


def check_size(size: tuple[int, int] | int) -> tuple[int, int]:
    """Width and height of the network's input, or an error."""
    try:
        width, height = size if isinstance(size, Sequence) else (size, size)
        sides = index(width), index(height)
    except (TypeError, ValueError):
        raise InputError(f"size {size!r}: wanted one whole number or (width, height)") from None
    if not all(SMALLEST_SIZE <= side <= LARGEST_SIZE for side in sides):
        given = "x".join(map(str, sides))
        raise InputError(f"size {given}: each side must be from {SMALLEST_SIZE} to {LARGEST_SIZE} pixels")
    return sides


def check_device(device: str | torch.device) -> torch.device:
    """A device that is there, or an error."""
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError):
        raise InputError(f"unknown device '{device}': give cpu, cuda or cuda:N") from None
    if chosen.type not in ("cpu", "cuda"):
        raise InputError(f"cannot compute on '{device}': give cpu, cuda or cuda:N")
    if chosen.type == "cuda" and (chosen.index or 0) >= torch.cuda.device_count():
        raise InputError(f"no device '{device}': {torch.cuda.device_count()} CUDA devices found; use cpu")
    return chosen
