"""The colours of drawings as people see them who see fewer.

Colours go through the simulation of Machado, Oliveira and Fernandes (2009) for the complete lack of one kind
of cone, and are then compared as CIELAB does, where a distance of 2 can just be told apart.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from dhpf.viz.colours import NEUTRAL, RIGHT, WRONG, colours, wheel_colours
from dhpf.viz.heat import _tinted

VISION = {
    "usual": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]]
    ),
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def seen(rgb: ArrayLike, vision: str) -> NDArray[np.float64]:
    """RGB (..., 3) -> CIELAB (..., 3) as somebody with that vision sees it."""
    share = np.asarray(rgb) / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    xyz = np.clip(linear @ VISION[vision].T, 0, 1) @ TO_XYZ.T / TO_XYZ.sum(1)
    bent = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    x, y, z = np.moveaxis(bent, -1, 0)
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=-1)


def distance(a: ArrayLike, b: ArrayLike, vision: str) -> NDArray[np.float64]:
    return np.asarray(np.linalg.norm(seen(a, vision) - seen(b, vision), axis=-1))


def test_the_simulation_confuses_what_is_confused() -> None:
    """Red and green of one lightness are hard to tell apart without the green cone, and easy with it."""
    red, green = (190, 80, 60), (110, 120, 50)
    assert distance(red, green, "usual") > 50
    assert distance(red, green, "deuteranopia") < 12
    assert seen((255, 255, 255), "usual") == pytest.approx([100, 0, 0], abs=0.1)


@pytest.mark.parametrize("vision", VISION)
def test_more_confidence_is_lighter(vision: str) -> None:
    lightness = seen(colours(np.linspace(0, 1, 21)), vision)[:, 0]
    assert (np.diff(lightness) > 2).all()
    assert lightness[-1] - lightness[0] > 60


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("shade", [0, 128, 255])
def test_more_heat_is_lighter_on_any_photo(vision: str, shade: int) -> None:
    heat = np.linspace(0, 1, 11)[None]
    lightness = seen(_tinted(np.full(heat.shape, float(shade)), heat), vision)[0, :, 0]
    assert (np.diff(lightness) > 0.5).all()
    assert lightness[-1] - lightness[0] > 40


@pytest.mark.parametrize("vision", VISION)
def test_right_and_wrong_differ(vision: str) -> None:
    """They differ in shape, too: a dot and a diamond."""
    assert distance(RIGHT, WRONG, vision) > 40
    assert seen(RIGHT, vision)[0] - seen(WRONG, vision)[0] > 20
    for colour in (RIGHT, WRONG):
        assert distance(colour, NEUTRAL, vision) > 25


@pytest.mark.parametrize("vision", VISION)
def test_directions_of_the_wheel_differ(vision: str) -> None:
    """Eight directions can be told from each other and from standing still; opposite ones at a glance."""
    angles = np.arange(8) * np.pi / 4
    ring = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    tints = np.concatenate([wheel_colours(ring), wheel_colours(np.zeros((1, 2)))])
    apart = distance(tints[:, None], tints[None], vision) + 1000 * np.eye(9)
    assert apart.min() > 15
    opposite = [apart[one, one + 4] for one in range(4)]
    assert min(opposite) > 45


@pytest.mark.parametrize("vision", VISION)
def test_longer_is_farther_from_standing_still(vision: str) -> None:
    for angle in np.arange(8) * np.pi / 4:
        way = np.linspace(0, 1, 6)[:, None] * [np.cos(angle), np.sin(angle)]
        apart = distance(wheel_colours(way), wheel_colours(np.zeros(2)), vision)
        assert (np.diff(apart) > 0.5).all()
