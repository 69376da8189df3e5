"""Before the first step."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dhpf.methods.initial_weights import _initialise_transform, principal_directions, unit_projection
from dhpf.model.transform import Transform


@pytest.fixture
def pixels() -> torch.Tensor:
    """500 features of 64 channels, with a mean and with directions that matter more than others."""
    random = np.random.default_rng(0)
    mixed = random.normal(size=(500, 64)) * np.geomspace(10, 0.1, 64) @ random.normal(size=(64, 64))
    return torch.from_numpy(mixed + random.normal(size=64)).float()


def applied(transform: Transform, pixels: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = transform.eval()(pixels)
    return found


def test_principal_channels_keep_the_largest_directions_and_both_signs(pixels):
    transform = Transform(64)
    with torch.no_grad():
        _initialise_transform(transform, pixels, "principal")
    out = applied(transform, pixels)
    positive, negative = out.chunk(2, 1)
    assert (positive * negative == 0).all()  # a value or its negative, never both
    signed = (positive - negative).double().numpy()
    centred = (pixels - pixels.mean(0)).double().numpy()
    directions = np.linalg.svd(centred, full_matrices=False)[2][: signed.shape[1]]
    projected = centred @ directions.T
    signs = np.sign((signed * projected).sum(0))
    ratio = (signed * signs * projected).sum() / (projected**2).sum()
    np.testing.assert_allclose(signed * signs, ratio * projected, atol=2e-3 * np.abs(signed).max())


def test_principal_directions_by_hand() -> None:
    features = torch.tensor([[0.0, 3.0], [0, -3], [1, 0], [-1, 0]])  # squared lengths 9, 9, 1, 1
    first = principal_directions(features, 5)
    torch.testing.assert_close(first.abs(), torch.tensor([[0.0, 1.0], [1, 0]]))
    torch.testing.assert_close(unit_projection(features, 2), first / 5**0.5)


def test_random_channels_are_normalised(pixels):
    transform = Transform(64)
    weight = transform[0].weight.detach().clone()
    with torch.no_grad():
        _initialise_transform(transform, pixels, "random")
    assert torch.equal(transform[0].weight, weight)
    reduced = pixels @ weight.flatten(1).T
    wanted = ((reduced - reduced.mean(0)) / reduced.std(0)).relu()
    torch.testing.assert_close(applied(transform, pixels), wanted, rtol=1e-3, atol=1e-3)
