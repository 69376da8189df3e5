"""Drawn training data in PF-PASCAL's layout: signs whose shapes match and whose colours mislead.

Each photo shows the same nine signs in the arrangement of its category, under another similarity map, with
other colours on another background. The key points are the signs' centres.
"""

from __future__ import annotations

import csv
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from dhpf.data.annotations import SEPARATOR
from dhpf.data.pf_pascal import CLASSES

SIDE = 128  # of a photo, in pixels
FINE = 4  # drawn that many times larger, then reduced
SIGN = 0.22  # radius of a sign; the centres are 2/3 apart, in coordinates of the object
PLACES = np.stack(np.meshgrid(*[np.linspace(-2 / 3, 2 / 3, 3)] * 2), axis=-1).reshape(-1, 2)


class Drawing(NamedTuple):
    """A photo and its key points (9, 2), x then y, in pixels."""

    image: NDArray[np.uint8]
    points: NDArray[np.float64]


def _star(corners: int, inner: float, turn: float) -> NDArray[np.float64]:
    angle = turn + np.arange(2 * corners) * np.pi / corners
    radius = np.where(np.arange(2 * corners) % 2 == 0, 1.0, inner)
    return np.stack([radius * np.sin(angle), -radius * np.cos(angle)], axis=1)


def _box(width: float, height: float) -> NDArray[np.float64]:
    return np.array([[-width, -height], [width, -height], [width, height], [-width, height]])


SIGNS = (
    _star(3, 0.5, 0.0),  # triangle up
    _star(3, 0.5, np.pi),  # triangle down
    _star(4, 0.3, 0.0),  # plus
    _star(4, 0.3, np.pi / 4),  # cross
    _star(16, 0.98, 0.0),  # disc
    _box(1.0, 0.3),
    _box(0.3, 1.0),
    _star(5, 0.4, 0.0),  # star
    _box(0.75, 0.75),
)


def draw(arrangement: NDArray[np.int64], random: np.random.Generator) -> Drawing:
    """One photo: ``arrangement`` says which place each sign has."""
    coarse = random.integers(0, 256, (6, 6, 3), np.uint8)
    image = Image.fromarray(coarse).resize((FINE * SIDE,) * 2, Image.Resampling.BICUBIC)
    pen = ImageDraw.Draw(image)
    angle, scale = random.uniform(-0.3, 0.3), SIDE * random.uniform(0.36, 0.44)
    linear = scale * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    centre = SIDE / 2 + random.uniform(-0.06, 0.06, 2) * SIDE
    places = PLACES[arrangement]
    for sign, place in zip(SIGNS, places, strict=True):
        corners = (place + SIGN * sign) @ linear.T + centre
        colour = random.choice([random.integers(0, 60, 3), random.integers(195, 256, 3)])
        colour[random.integers(3)] = random.integers(256)
        pen.polygon([tuple(corner) for corner in (FINE * corners).tolist()], fill=tuple(colour.tolist()))
    small = image.resize((SIDE, SIDE), Image.Resampling.BOX)
    return Drawing(np.asarray(small), places @ linear.T + centre - 0.5)


def write_pairs(
    root: Path, *, categories: int = 3, groups: int = 3, photos: int = 3, seed: int = 0, points: bool = True
) -> None:
    """Write ``val_pairs.csv``, ``test_pairs.csv`` and their photos.

    Parameters
    ----------
    groups, photos
        Of each category: so many groups of photos, and all pairs within a group of so many. Groups share no
        photo. The first pair of each category is a test pair too, in the other direction.
    points
        Without, ``trn_pairs.csv`` is written, which has no key points.
    """
    random = np.random.default_rng(seed)
    (root / "JPEGImages").mkdir(parents=True)
    rows: list[list[object]] = []
    tests: list[list[object]] = []
    for label in range(1, 1 + categories):
        for group in range(groups):
            drawn = {}
            for number in range(photos):
                name = f"{CLASSES[label - 1]}_{group}{number}.png"
                drawn[name] = draw(random.permutation(len(SIGNS)), random)
                Image.fromarray(drawn[name].image).save(root / "JPEGImages" / name)
            pairs = list(combinations(drawn, 2))
            rows += [_row(a, b, label, drawn[a], drawn[b]) for a, b in pairs]
            if group == 0:
                a, b = pairs[0]
                tests.append(_row(b, a, label, drawn[b], drawn[a]))
    header = ["source_image", "target_image", "class", "XA", "YA", "XB", "YB"]
    _write(root / "test_pairs.csv", header, tests)
    if points:
        _write(root / "val_pairs.csv", header, rows)
    else:
        _write(root / "trn_pairs.csv", header[:3], [row[:3] for row in rows])


def _row(a: str, b: str, label: int, first: Drawing, second: Drawing) -> list[object]:
    columns = [*first.points.T, *second.points.T]
    return [a, b, label, *(SEPARATOR.join(f"{value:.2f}" for value in column) for column in columns)]


def _write(path: Path, header: list[str], rows: list[list[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
