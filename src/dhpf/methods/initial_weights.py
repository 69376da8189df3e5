"""Initial weights of gates and transformations, from the features of some training images.

C channels of a layer, C' reduced  n features
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ..backbones.base import Features
from ..model.transform import Perceptron

if TYPE_CHECKING:
    from .dhpf import DHPF

PIXELS = 256  # of each image and layer that initial statistics are taken from


@torch.no_grad()
def initialise(method: DHPF, samples: Sequence[Features], generator: torch.Generator, init: str) -> None:
    """Set initial weights and the batch norms' statistics from the features of training images.

    Parameters
    ----------
    generator
        On the CPU; the weights may be elsewhere.
    init
        ``random``; or ``principal``: half of a transformation's channels are the first principal directions
        of the layer's features, the other half their negatives, so that the ReLU loses nothing, and all keep
        their variance. It begins as a compressed copy of the layer, not as a random mixture.
    """
    set_random_weights([method.gates, method.transforms], generator)
    for place, transform in enumerate(method.transforms):
        layer = method.layers[place]
        pixels = some_pixels(samples, layer, generator)
        if isinstance(transform, Perceptron):
            initialise_perceptron(transform, pixels, init, (layer + 1) / len(method.backbone.channels))
        else:
            _initialise_transform(transform, pixels, init)
    for place, perceptron in enumerate(method.gates.perceptrons):
        weight = perceptron.get_parameter("0.weight")
        pooled = torch.stack([one.pooled[method.layers[place]] for one in samples]).to(weight)
        sums = pooled + pooled.roll(1, 0)  # any two images stand in for a pair
        _set_statistics(perceptron.get_submodule("1"), sums @ weight.T)


@torch.no_grad()
def set_random_weights(parts: Sequence[nn.Module], generator: torch.Generator) -> None:
    """Of all their linear maps and convolutions: torch's own default, but from our generator."""
    for module in [module for part in parts for module in part.modules()]:
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            bound = module.weight[0].numel() ** -0.5
            uniform = torch.rand(module.weight.shape, generator=generator)
            module.weight.copy_((2 * uniform - 1) * bound)


def _initialise_transform(transform: nn.Module, pixels: Tensor, init: str) -> None:
    weight = transform.get_parameter("0.weight")  # (C', C, 1, 1)
    pixels = pixels.to(weight)
    if init == "principal":
        first = principal_directions(pixels - pixels.mean(0), weight.shape[0] // 2)
        weight.copy_(torch.cat([first, -first])[:, :, None, None])
    reduced = pixels @ weight.flatten(1).T
    _set_statistics(transform.get_submodule("1"), reduced)
    if init == "principal":
        deviation = reduced.std(0)
        transform.get_parameter("1.weight").copy_(deviation / deviation.square().sum().sqrt())


@torch.no_grad()
def initialise_perceptron(transform: Perceptron, pixels: Tensor, init: str, depth: float = 1.0) -> None:
    """Begin as a linear map; as ``principal`` on the first principal directions, deep layers ahead."""
    pixels = pixels.to(transform.mean)
    transform.mean.copy_(pixels.mean(0))
    transform.deviation.copy_(pixels.std(0).clamp_min(1e-6))
    transform.linear.bias.zero_()
    transform.hidden.bias.zero_()
    transform.out.weight.zero_()
    if init == "principal":
        standard = (pixels - transform.mean) / transform.deviation
        first = unit_projection(standard, len(transform.linear.weight))
        transform.linear.weight.zero_()[: len(first)] = first * depth**0.5


def principal_directions(centred: Tensor, count: int) -> Tensor:
    """Of features (n, C) with mean 0: the first ones, the largest ahead, (count or C, C)."""
    directions: Tensor = torch.linalg.eigh(centred.T @ centred)[1]  # ascending
    return directions.T.flip(0)[:count]


def unit_projection(centred: Tensor, count: int) -> Tensor:
    """Principal directions, scaled so that the mean squared length of projected features is 1."""
    first = principal_directions(centred, count)
    return first / (centred @ first.T).square().sum(1).mean().sqrt()


def _set_statistics(norm: nn.Module, values: Tensor) -> None:
    norm.get_buffer("running_mean").copy_(values.mean(0))
    norm.get_buffer("running_var").copy_(values.var(0))


def some_pixels(samples: Sequence[Features], layer: int, generator: torch.Generator) -> Tensor:
    """Some features of a layer from all images, (n, C)."""
    found = []
    for one in samples:
        flat = one.blocks[layer].flatten(0, 1)
        chosen = torch.randperm(len(flat), generator=generator)[:PIXELS].sort().values
        found.append(flat[chosen.to(flat.device)])
    return torch.cat(found)
