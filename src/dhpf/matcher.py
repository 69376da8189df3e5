"""Matcher: photos in, Match out. Pixels of the original photos everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from PIL import Image

from .errors import InputError
from .images import ImageLike, read_image, to_input
from .match import Match
from .model.checkpoint import load_network
from .model.matching import MATRIX_BYTES
from .model.network import Features, HyperpixelFlow
from .model.weights import DEFAULT_MODEL

if TYPE_CHECKING:
    import os

DEFAULT_SIZE = (240, 240)
SMALLEST_SIZE, LARGEST_SIZE = 32, 1024


@dataclass(frozen=True)
class PhotoFeatures:
    """A photo and what the network saw in it."""

    photo: Image.Image
    features: Features

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
        size: tuple[int, int] = DEFAULT_SIZE,
        device: str | torch.device = "cpu",
        matrix_bytes: int = MATRIX_BYTES,
    ) -> None:
        """See :func:`load` for the parameters."""
        if not all(SMALLEST_SIZE <= side <= LARGEST_SIZE for side in size):
            given = "x".join(map(str, size))
            raise InputError(f"size {given}: each side must be from {SMALLEST_SIZE} to {LARGEST_SIZE} pixels")
        self.device = _device(device)
        self.network = network.to(self.device)
        self.name = name
        self.size = size
        self.matrix_bytes = matrix_bytes

    def features(self, image: ImageLike) -> PhotoFeatures:
        """Compute a photo's features once, to match it with many others."""
        photo = read_image(image)
        return PhotoFeatures(photo, self.network.features(to_input(photo, self.size).to(self.device)))

    def match(self, source: ImageLike | PhotoFeatures, target: ImageLike | PhotoFeatures) -> Match:
        """Match two photos, or photos whose features are at hand.

        Parameters
        ----------
        source, target
            Paths, PIL images, arrays, tensors (see :func:`dhpf.images.read_image`) or :meth:`features`.
        """
        a = source if isinstance(source, PhotoFeatures) else self.features(source)
        b = target if isinstance(target, PhotoFeatures) else self.features(target)
        result = self.network.match(a.features, b.features, self.matrix_bytes)
        probability = None if result.probability is None else result.probability[0].cpu().numpy()
        return Match(
            source=a.photo,
            target=b.photo,
            best=result.best[0].cpu().numpy(),
            cell_confidence=result.confidence[0].cpu().numpy(),
            grids=(a.features.grid, b.features.grid),
            size=self.size,
            model=self.name,
            layers=result.layers[0],
            layer_probability=probability,
        )


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
    sides = (size, size) if isinstance(size, int) else size
    network = load_network(str(model), None if backbone is None else Path(backbone))
    return Matcher(network, str(model), sides, device, matrix_bytes)


def _device(device: str | torch.device) -> torch.device:
    try:
        chosen = torch.device(device)
    except RuntimeError:
        raise InputError(f"unknown device '{device}': give cpu, cuda or cuda:N") from None
    if chosen.type == "cuda" and (chosen.index or 0) >= torch.cuda.device_count():
        raise InputError(f"device '{device}' is not there: {torch.cuda.device_count()} CUDA devices found; use cpu")
    return chosen
