"""Mini data sets in the official layouts, generated: for tests, and for trying commands with no download."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.io import savemat

from ..errors import InputError
from . import caltech101, pf_pascal, pf_willow, spair71k
from .pairs import Floats
from .registry import find_dataset
from .scenes import DrawnObject, Scene, draw_scene

IMAGES = 4  # of each category
SIZES = ((120, 90), (90, 120), (128, 96), (100, 100))  # width, height of each
HIDDEN = {0: 9, 2: 4}  # image of each category -> its keypoint that PF-PASCAL and SPair-71k do not show

# Which images of a category are paired. Images 0 and 1 are for training, so the first two test pairs share
# no image with it and the third does.
PAIRS = {"trn": ((0, 1), (1, 0)), "val": ((1, 2),), "test": ((2, 3), (3, 2), (0, 3))}


class Named(NamedTuple):
    """A scene and the name of its file, without the ending."""

    name: str
    scene: Scene
    points: Floats  # (SPOTS, 2), NaN where hidden


def make_mini(name: str, root: str | Path, seed: int = 0, keypoint_columns: bool = False) -> None:
    """Write a mini data set: a few categories with four drawn images each, and true correspondences.

    Parameters
    ----------
    name
        ``pf-pascal``, ``pf-willow``, ``caltech-101`` or ``spair-71k``.
    root
        The folder to fill; it must be empty or absent.
    seed
        The same seed gives the same files.
    keypoint_columns
        Of PF-PASCAL: keypoints and boxes as columns of the validation and test lists, and none for training,
        in place of the official ``Annotations``.
    """
    find_dataset(name)
    root = Path(root)
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise InputError(f"{root}: a mini data set is written to an empty or new folder, and this is neither")
    if keypoint_columns and name != "pf-pascal":
        raise InputError(f"only pf-pascal has lists with and without keypoint columns, {name} does not")
    root.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    if name == "pf-pascal":
        _pf_pascal(root, rng, keypoint_columns)
    elif name == "pf-willow":
        _pf_willow(root, rng)
    elif name == "caltech-101":
        _caltech101(root, rng)
    else:
        _spair71k(root, rng)


def _category(rng: np.random.Generator, names: Sequence[str]) -> list[Named]:
    drawn = DrawnObject(rng)
    scenes = []
    for number, (name, size) in enumerate(zip(names, SIZES, strict=True)):
        scene = draw_scene(drawn, size, rng)
        points = scene.points.copy()
        if number in HIDDEN:
            points[HIDDEN[number]] = np.nan
        scenes.append(Named(name, scene, points))
    return scenes


def _pf_pascal(root: Path, rng: np.random.Generator, keypoint_columns: bool) -> None:
    lists: dict[str, list[list[object]]] = {split: [] for split in PAIRS}
    for label in (1, 8, 14):
        category = pf_pascal.CLASSES[label - 1]
        scenes = _category(rng, [f"2008_{label:03}{number:03}" for number in range(IMAGES)])
        for item in scenes:
            _save(item.scene.image, root / "JPEGImages" / f"{item.name}.jpg")
            _save_class_map(item.scene, label, root / "SegmentationClass" / f"{item.name}.png")
            if not keypoint_columns:
                file = root / "Annotations" / category / f"{item.name}.mat"
                file.parent.mkdir(parents=True, exist_ok=True)
                savemat(file, {"kps": item.points, "bbox": item.scene.box[None]})
        for split, pairs in PAIRS.items():
            for a, b in ((scenes[i], scenes[j]) for i, j in pairs):
                row: list[object] = [*(_pascal_path(s.name, keypoint_columns) for s in (a, b)), label]
                if split == "trn":
                    lists[split] += [[*row, 0], [*row, 1]]
                else:
                    lists[split].append([*row, *_keypoint_cells(a, b)] if keypoint_columns else row)
    columns = ["source_image", "target_image", "class"]
    more = ["XA", "YA", "XB", "YB", "bboxA", "bboxB"] if keypoint_columns else []
    for split, rows in lists.items():
        header = [*columns, "flip"] if split == "trn" else [*columns, *more]
        _save_rows(root / f"{split}_pairs.csv", header, rows)


def _pascal_path(name: str, bare: bool) -> str:
    return f"{name}.jpg" if bare else f"PF-dataset-PASCAL/JPEGImages/{name}.jpg"


def _keypoint_cells(a: Named, b: Named) -> list[str]:
    seen = _common(a, b)
    columns = [*a.points[seen].T, *b.points[seen].T, a.scene.box, b.scene.box]
    return [pf_pascal.SEPARATOR.join(map(str, column.tolist())) for column in columns]


def _pf_willow(root: Path, rng: np.random.Generator) -> None:
    rows = []
    for category in ("car(G)", "duck(S)"):
        scenes = _category(rng, [f"{category[:-3].title()}s_{number:03}" for number in range(IMAGES)])
        for item in scenes:
            _save(item.scene.image, root / category / f"{item.name}.png")
            savemat(root / category / f"{item.name}.mat", {"pts_coord": item.scene.points.T})
        for a, b in permutations(scenes, 2):
            coordinates = np.concatenate([*a.scene.points.T, *b.scene.points.T])
            rows.append([*(f"{category}/{s.name}.png" for s in (a, b)), *coordinates.tolist()])
    _save_rows(root / pf_willow.LISTS[0], pf_willow.COLUMNS, rows)


def _caltech101(root: Path, rng: np.random.Generator) -> None:
    rows = []
    for label, category in ((6, "airplanes"), (13, "bonsai"), (31, "cup")):
        scenes = _category(rng, [f"image_{number:04}" for number in range(IMAGES)])
        for item in scenes:
            _save(item.scene.image, root / "101_ObjectCategories" / category / f"{item.name}.jpg")
        for i, j in (pair for pairs in PAIRS.values() for pair in pairs):
            names = [f"101_ObjectCategories/{category}/{scenes[k].name}.jpg" for k in (i, j)]
            columns = [*scenes[i].scene.outline.T, *scenes[j].scene.outline.T]
            cells = [caltech101.SEPARATOR.join(map(str, column.tolist())) for column in columns]
            rows.append([*names, label, *cells])
    _save_rows(root / caltech101.LIST, caltech101.COLUMNS, rows)


def _spair71k(root: Path, rng: np.random.Generator) -> None:
    layouts: dict[tuple[str, str], list[str]] = {(x, s): [] for x in spair71k.LAYOUTS for s in PAIRS}
    for category in ("bus", "cat"):
        label = pf_pascal.CLASSES.index(category) + 1
        scenes = _category(rng, [f"2009_{label:03}{number:03}" for number in range(IMAGES)])
        for item in scenes:
            _save(item.scene.image, root / "JPEGImages" / category / f"{item.name}.jpg")
            _save_class_map(item.scene, label, root / "Segmentation" / category / f"{item.name}.png")
        for split, pairs in PAIRS.items():
            for i, j in pairs:
                number = 1 + len(layouts["large", split])
                name = f"{number:06}-{scenes[i].name}-{scenes[j].name}:{category}"
                layouts["large", split].append(name)
                if number % 2:
                    layouts["small", split].append(name)
                file = root / "PairAnnotation" / split / f"{name}.json"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(json.dumps(_spair_annotation(scenes[i], scenes[j], category, (i, j), number)))
    for (layout, split), names in layouts.items():
        file = root / "Layout" / layout / f"{split}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{name}\n" for name in names))


def _spair_annotation(
    a: Named, b: Named, category: str, images: tuple[int, int], number: int
) -> dict[str, object]:
    seen = _common(a, b)
    content: dict[str, object] = {"pair_id": number, "category": category}
    for prefix, item in (("src", a), ("trg", b)):
        height, width = item.scene.mask.shape
        content[f"{prefix}_imname"] = f"{item.name}.jpg"
        content[f"{prefix}_imsize"] = [width, height, 3]
        content[f"{prefix}_bndbox"] = item.scene.box.round().astype(int).tolist()
        content[f"{prefix}_kps"] = item.points[seen].round().astype(int).tolist()
    content["kps_ids"] = [str(k) for k in np.flatnonzero(seen)]
    # The scenes are too alike to differ in truth; the flags take every value, for tables to show.
    return content | {flag: (sum(images) + k) % 3 for k, flag in enumerate(spair71k.FLAGS)}


def _common(a: Named, b: Named) -> NDArray[np.bool_]:
    """Which keypoints both show, (SPOTS,)."""
    return np.isfinite(a.points[:, 0] + b.points[:, 0])


def _save(image: NDArray[np.uint8], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).save(path, quality=95)


def _save_class_map(scene: Scene, label: int, path: Path) -> None:
    _save(np.where(scene.mask, label, 0).astype(np.uint8), path)


def _save_rows(path: Path, header: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])
