"""The colours of drawings. All differ in lightness or along blue and yellow, which people of nearly every
colour vision see; tests look at them through simulated protanopia, deuteranopia and tritanopia."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Colour: TypeAlias = tuple[int, int, int]

# From no confidence to full: purple, blue, green, yellow, ever lighter.
SCALE = np.array([(68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37)], float)

RIGHT: Colour = (86, 180, 233)  # light blue
WRONG: Colour = (175, 65, 0)  # dark orange
NEUTRAL: Colour = (255, 255, 255)

# The wheel of displacements: grey where nothing moves, and what each direction adds to it.
STILL = np.array([120, 120, 120], float)
RIGHTWARD, LEFTWARD = np.array([125, 50, -120]), np.array([-110, -5, 110])  # amber, blue
UPWARD, DOWNWARD = np.array([120, 120, 120]), np.array([-100, -100, -100])  # light, dark


def colours(values: ArrayLike) -> NDArray[np.uint8]:
    """Values in [0, 1], of any shape -> RGB, (..., 3)."""
    position = np.clip(np.asarray(values, np.float64), 0, 1) * (len(SCALE) - 1)
    low = np.minimum(position.astype(int), len(SCALE) - 2)
    fraction = (position - low)[..., None]
    mixed: NDArray[np.float64] = SCALE[low] * (1 - fraction) + SCALE[low + 1] * fraction
    return np.rint(mixed).astype(np.uint8)


def wheel_colours(displacement: NDArray[np.floating]) -> NDArray[np.uint8]:
    """Displacements (..., 2), x to the right and y down, in radii of the wheel -> RGB, (..., 3).

    The direction sets the tint: amber to the right, blue to the left, light up, dark down. The length sets
    how far it is from grey; beyond the wheel's edge it does not grow.
    """
    length = np.linalg.norm(displacement, axis=-1, keepdims=True)
    x, y = np.moveaxis(displacement / np.maximum(length, 1e-12), -1, 0)[..., None]
    # The squares of x and y add up to 1: every colour lies between four that can be shown.
    full = x**2 * np.where(x > 0, RIGHTWARD, LEFTWARD) + y**2 * np.where(y < 0, UPWARD, DOWNWARD)
    rgb: NDArray[np.uint8] = np.rint(STILL + np.minimum(length, 1) * full).astype(np.uint8)
    return rgb
