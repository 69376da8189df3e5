"""The mini data sets: the same for a seed, and true."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dhpf.data.mini import make_mini
from dhpf.data.registry import DATASETS, open_dataset
from dhpf.data.scenes import photos, show
from dhpf.errors import InputError


def files(root: Path) -> dict[str, bytes]:
    def content(path: Path) -> bytes:
        return (
            path.read_bytes()[128:] if path.suffix == ".mat" else path.read_bytes()
        )  # MATLAB dates its files

    return {str(path.relative_to(root)): content(path) for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", DATASETS)
def test_a_seed_gives_the_same_files(tmp_path, name):
    for folder, seed in (("a", 0), ("b", 0), ("c", 1)):
        make_mini(name, tmp_path / folder, seed)
    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert files(tmp_path / "a") != files(tmp_path / "c")


@pytest.mark.parametrize("name", ["pf-pascal", "pf-willow", "spair-71k", "coco"])
def test_matching_points_look_alike_and_others_do_not(tmp_path, name):
    make_mini(name, tmp_path)
    dataset = open_dataset(name, tmp_path, "all" if name == "coco" else "test")
    for pair in (dataset[i] for i in range(len(dataset))):
        colours = []
        for photo in (pair.source, pair.target):
            x, y = photo.points.round().astype(int).T
            colours.append(photo.image()[y, x].astype(float))
        distances = np.linalg.norm(colours[0][:, None] - colours[1][None], axis=-1)  # (K, K)
        assert np.median(np.diag(distances)) < 0.3 * np.median(distances)


def test_the_outline_is_that_of_the_mask():
    rng = np.random.default_rng(0)
    scene = show(photos()[0], (120, 90), rng)
    x, y = scene.points.round().astype(int).T
    assert scene.mask[y, x].all()
    rows, columns = np.nonzero(scene.mask)
    extent = [columns.min(), rows.min(), columns.max(), rows.max()]
    assert scene.box == pytest.approx(extent, abs=1.5)


def test_test_pairs_with_and_without_training_images(tmp_path):
    make_mini("pf-pascal", tmp_path)
    trained = {path for entry in open_dataset("pf-pascal", tmp_path, "trn").entries for path in entry[2:4]}
    shared = [
        bool({e.source, e.target} & trained) for e in open_dataset("pf-pascal", tmp_path, "test").entries
    ]
    assert shared == [False, False, True] * 3


def test_a_folder_with_files_is_left_alone(tmp_path):
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(InputError, match="empty or new folder"):
        make_mini("pf-willow", tmp_path)
    with pytest.raises(InputError, match="empty or new folder"):
        make_mini("pf-willow", tmp_path / "mine")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
