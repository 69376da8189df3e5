"""Mini data sets in the official layouts, generated: for tests, and for trying commands with no download."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ..errors import InputError
from ..files import csv_text
from . import caltech101, pf_pascal, pf_willow, spair71k
from .annotations import SEPARATOR
from .pairs import Floats
from .registry import find_dataset
from .scenes import SPOTS, Scene, photos, show

SIZES = ((120, 90), (90, 120), (128, 96), (100, 100))  # width, height of each category's images
HIDDEN = {0: 9, 2: 4}  # image of each category -> its keypoint that it does not show, PF-WILLOW aside

# Which images of a category are paired. Images 0 and 1 are for training, so the first two test pairs share
# no image with it and the third does.
PAIRS = {"trn": ((0, 1), (1, 0)), "val": ((1, 2),), "test": ((2, 3), (3, 2), (0, 3))}


class Drawn(NamedTuple):
    """A scene that was drawn."""

    file: str  # in the data set's folder
    scene: Scene
    points: Floats  # (SPOTS, 2), NaN where hidden

    @property
    def name(self) -> str:
        """The file's name without folder and ending."""
        return Path(self.file).stem


def make_mini(name: str, root: str | Path, seed: int = 0) -> None:
    """Write a mini data set: a few categories with four drawn images each, and true correspondences.

    Parameters
    ----------
    name
        ``pf-pascal``, ``pf-willow``, ``caltech-101``, ``spair-71k`` or ``coco``.
    root
        The folder to fill; it must be empty or absent.
    seed
        The same seed gives the same files.
    """
    find_dataset(name)
    if seed < 0:
        raise InputError(f"seed {seed}: wanted 0 or more")
    root = Path(root)
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise InputError(f"{root}: a mini data set is written to an empty or new folder, and this is neither")
    root.mkdir(parents=True, exist_ok=True)
    make = {
        "pf-pascal": _pf_pascal,
        "pf-willow": _pf_willow,
        "caltech-101": _caltech101,
        "spair-71k": _spair71k,
        "coco": _coco,
    }
    make[name](root, np.random.default_rng(seed))


def _draw(root: Path, rng: np.random.Generator, files: Mapping[str, str]) -> dict[str, list[Drawn]]:
    """Draw and save the images of each category, whose files are named by a pattern."""
    drawn: dict[str, list[Drawn]] = {}
    for photo, (category, pattern) in zip(photos(), files.items(), strict=False):
        drawn[category] = []
        for number, size in enumerate(SIZES):
            scene = show(photo, size, rng)
            points = scene.points.copy()
            if number in HIDDEN:
                points[HIDDEN[number]] = np.nan
            drawn[category].append(Drawn(pattern.format(number), scene, points))
            _save(scene.image, root / pattern.format(number))
    return drawn


def _pf_pascal(root: Path, rng: np.random.Generator) -> None:
    columns = ["source_image", "target_image", "class", "XA", "YA", "XB", "YB", "bboxA", "bboxB"]
    lists: dict[str, list[list[Any]]] = {split: [columns] for split in PAIRS}
    lists["trn"] = [[*columns, "flip"]]
    labels = {pf_pascal.CLASSES[label - 1]: label for label in (1, 8, 14)}
    files = {category: f"JPEGImages/2008_{label:03}{{:03}}.jpg" for category, label in labels.items()}
    for category, images in _draw(root, rng, files).items():
        for one in images:
            _save_class_map(one.scene, labels[category], root / "SegmentationClass" / f"{one.name}.png")
        for split, pairs in PAIRS.items():
            for a, b in ((images[i], images[j]) for i, j in pairs):
                seen = _common(a, b)
                values = *a.points[seen].T, *b.points[seen].T, a.scene.box, b.scene.box
                row = [a.file, b.file, labels[category], *map(_cell, values)]
                lists[split] += [[*row, 0], [*row, 1]] if split == "trn" else [row]
    for split, rows in lists.items():
        _save_rows(root / f"{split}_pairs.csv", rows)


def _pf_willow(root: Path, rng: np.random.Generator) -> None:
    from scipy.io import savemat  # slow to import

    rows: list[Iterable[Any]] = [pf_willow.COLUMNS]
    files = {"car(G)": "car(G)/Cars_{:03}.png", "duck(S)": "duck(S)/Ducks_{:03}.png"}
    for images in _draw(root, rng, files).values():
        for one in images:
            savemat((root / one.file).with_suffix(".mat"), {"pts_coord": one.scene.points.T})
        for a, b in permutations(images, 2):
            rows.append([a.file, b.file, *np.concatenate([*a.scene.points.T, *b.scene.points.T]).tolist()])
    _save_rows(root / pf_willow.LISTS[0], rows)


def _caltech101(root: Path, rng: np.random.Generator) -> None:
    rows: list[Iterable[Any]] = [caltech101.COLUMNS]
    labels = {"airplanes": 6, "bonsai": 13, "cup": 31}
    files = {category: f"101_ObjectCategories/{category}/image_{{:04}}.jpg" for category in labels}
    for category, images in _draw(root, rng, files).items():
        for a, b in ((images[i], images[j]) for pairs in PAIRS.values() for i, j in pairs):
            outlines = *a.scene.outline.T, *b.scene.outline.T
            rows.append([a.file, b.file, labels[category], *map(_cell, outlines)])
    _save_rows(root / caltech101.LIST, rows)


def _spair71k(root: Path, rng: np.random.Generator) -> None:
    layouts: dict[tuple[str, str], list[str]] = {(x, s): [] for x in spair71k.LAYOUTS for s in PAIRS}
    labels = {category: pf_pascal.CLASSES.index(category) + 1 for category in ("bus", "cat")}
    files = {c: f"JPEGImages/{c}/2009_{label:03}{{:03}}.jpg" for c, label in labels.items()}
    for category, images in _draw(root, rng, files).items():
        for one in images:
            _save_class_map(one.scene, labels[category], root / "Segmentation" / category / f"{one.name}.png")
        for split, (i, j) in ((split, pair) for split, pairs in PAIRS.items() for pair in pairs):
            number = 1 + len(layouts["large", split])
            name = f"{number:06}-{images[i].name}-{images[j].name}:{category}"
            layouts["large", split].append(name)
            if number % 2:
                layouts["small", split].append(name)
            # The scenes are too alike to differ in truth; the flags take every value, for tables to show.
            flags = {flag: (i + j + k) % 3 for k, flag in enumerate(spair71k.FLAGS)}
            content = {"pair_id": number, "category": category, **flags}
            seen = _common(images[i], images[j])
            for prefix, one in (("src", images[i]), ("trg", images[j])):
                content[f"{prefix}_imname"] = f"{one.name}.jpg"
                content[f"{prefix}_imsize"] = [*one.scene.size, 3]
                content[f"{prefix}_bndbox"] = one.scene.box.round().astype(int).tolist()
                content[f"{prefix}_kps"] = one.points[seen].round().astype(int).tolist()
            _save_text(root / "PairAnnotation" / split / f"{name}.json", json.dumps(content))
    for (layout, split), names in layouts.items():
        _save_text(root / "Layout" / layout / f"{split}.txt", "".join(f"{name}\n" for name in names))


def _coco(root: Path, rng: np.random.Generator) -> None:
    names = [f"{side}_{part}" for part in range(SPOTS // 2) for side in ("left", "right")]
    content: dict[str, list[dict[str, Any]]] = {"images": [], "annotations": [], "categories": []}
    files = {category: f"images/{category}_{{}}.jpg" for category in ("cup", "shoe")}
    for kind, (category, images) in enumerate(_draw(root, rng, files).items(), start=1):
        content["categories"].append({"id": kind, "name": category, "keypoints": names})
        for one in images:
            number = 1 + len(content["images"])
            about = dict(zip(("width", "height"), one.scene.size, strict=True))
            content["images"].append({"id": number, "file_name": f"{one.name}.jpg", **about})
            shown = np.isfinite(one.points[:, :1])
            points = np.where(shown, np.hstack([one.points, np.full((SPOTS, 1), 2.0)]), 0.0)
            corner, opposite = one.scene.box.reshape(2, 2)
            content["annotations"].append(
                {
                    "id": number,
                    "image_id": number,
                    "category_id": kind,
                    "bbox": [*(corner + 0.5).round(2).tolist(), *(opposite - corner).round(2).tolist()],
                    "num_keypoints": int(shown.sum()),
                    "keypoints": points.round(2).reshape(-1).tolist(),
                }
            )
    _save_text(root / "annotations.json", json.dumps(content))


def _common(a: Drawn, b: Drawn) -> NDArray[np.bool_]:
    """Which keypoints both show, (SPOTS,)."""
    return np.isfinite(a.points[:, 0] + b.points[:, 0])


def _cell(values: Floats) -> str:
    return SEPARATOR.join(map(str, values.tolist()))


def _save(image: NDArray[np.uint8], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).save(path, quality=95)


def _save_class_map(scene: Scene, label: int, path: Path) -> None:
    _save(np.where(scene.mask, label, 0).astype(np.uint8), path)


def _save_text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _save_rows(path: Path, rows: Iterable[Iterable[Any]]) -> None:
    path.write_text(csv_text(rows), encoding="utf-8", newline="")
