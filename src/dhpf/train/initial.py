"""Before the first step: statistics for the batch norms, and transformations that begin with what matters.

n features  C channels of a layer  C' reduced channels
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..data.pairs import Photo
from ..model.network import DHPF
from ..model.transform import Transform
from .features import FeatureStore, StoredFeatures
from .views import View

PIXELS = 256  # of each photo and layer that statistics are taken from


@torch.no_grad()
def prepare(network: DHPF, photos: Sequence[Photo], store: FeatureStore, init: str, seed: int) -> None:
    """Set initial weights and the batch norms' statistics from the training photos' features.

    Parameters
    ----------
    init
        ``random``; or ``principal``: half of a transformation's channels are the first principal directions
        of the layer's features, the other half their negatives, so that the ReLU loses nothing, and all keep
        their variance. It begins as a compressed copy of the layer, not as a random mixture.
    """
    generator = torch.Generator().manual_seed(seed)
    for module in network.head().modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):  # torch's own default, but from our generator
            bound = module.weight[0].numel() ** -0.5
            module.weight.uniform_(-bound, bound, generator=generator)
    stored = [store.get(photo, View()) for photo in photos]
    for layer, transform in enumerate(network.transforms):
        if isinstance(transform, Transform):
            _prepare_transform(transform, _pixels(stored, layer, generator), init)
    pooled = [torch.stack([one.pooled[layer] for one in stored]) for layer in range(network.gates.layers)]
    for layer, perceptron in enumerate(network.gates.perceptrons):
        sums = pooled[layer] + pooled[layer].roll(1, 0)  # any two photos stand in for a pair
        _set_statistics(perceptron.get_submodule("1"), perceptron.get_submodule("0")(sums))


def _prepare_transform(transform: Transform, pixels: Tensor, init: str) -> None:
    convolution, norm = transform[0], transform[1]
    weight = convolution.get_parameter("weight")  # (C', C, 1, 1)
    if init == "principal":
        half = weight.shape[0] // 2
        centred = pixels - pixels.mean(0)
        _, directions = torch.linalg.eigh(centred.T @ centred)  # ascending
        first = directions.T.flip(0)[:half]
        weight.copy_(torch.cat([first, -first])[:, :, None, None])
    reduced = pixels @ weight.flatten(1).T
    _set_statistics(norm, reduced)
    if init == "principal":
        deviation = reduced.std(0)
        norm.get_parameter("weight").copy_(deviation / deviation.square().sum().sqrt())


def _set_statistics(norm: nn.Module, values: Tensor) -> None:
    norm.get_buffer("running_mean").copy_(values.mean(0))
    norm.get_buffer("running_var").copy_(values.var(0))


def _pixels(stored: Sequence[StoredFeatures], layer: int, generator: torch.Generator) -> Tensor:
    """Some features of a layer from all photos, (n, C)."""
    found = []
    for one in stored:
        flat = one.blocks[layer].reshape(-1, one.blocks[layer].shape[-1])
        chosen = torch.randperm(len(flat), generator=generator)[:PIXELS]
        found.append(torch.from_numpy(flat[chosen.sort().values.numpy()]).float())
    return torch.cat(found)
