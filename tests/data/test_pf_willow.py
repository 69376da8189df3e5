"""PF-WILLOW: with and without its pair list."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.io import loadmat

from dhpf.data.mini import make_mini
from dhpf.data.pf_willow import PFWillow
from dhpf.errors import InputError


@pytest.fixture
def root(tmp_path) -> Path:
    make_mini("pf-willow", tmp_path / "willow")
    return tmp_path / "willow"


def test_points_are_those_of_the_mat_files(root):
    pair = PFWillow(root)[0]
    assert pair.category == "car(G)"
    for photo in (pair.source, pair.target):
        matrix = loadmat(photo.path.with_suffix(".mat"))["pts_coord"]
        assert matrix.shape == (2, 10)
        assert photo.points == pytest.approx(matrix.T, abs=1e-9)


def test_without_a_list_the_pairs_are_the_same(root):
    listed = PFWillow(root)
    listed_pairs = {pair.id: pair for pair in (listed[i] for i in range(len(listed)))}
    (root / "test_pairs.csv").unlink()
    found = PFWillow(root)
    assert len(found) == len(listed_pairs) == 2 * 4 * 3
    for pair in (found[i] for i in range(len(found))):
        assert pair.source.points == pytest.approx(listed_pairs[pair.id].source.points, abs=1e-9)
        assert pair.target.points == pytest.approx(listed_pairs[pair.id].target.points, abs=1e-9)


def test_the_published_list_with_another_name_and_a_leading_folder(root):
    expected = [PFWillow(root)[i].target.points for i in range(3)]
    text = (root / "test_pairs.csv").read_text()
    (root / "test_pairs.csv").unlink()
    (root / "test_pairs_pf.csv").write_text(text.replace("car(G)/", "PF-dataset/car(G)/"))
    pairs = PFWillow(root)
    assert pairs[0].source.path == root / "car(G)" / "Cars_000.png"
    assert all(np.array_equal(pairs[i].target.points, expected[i]) for i in range(3))


def test_bad_input_is_named(root):
    with pytest.raises(InputError, match="its only split is test"):
        PFWillow(root, "val")
    path = root / "test_pairs.csv"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], lines[1].rsplit(",", 1)[0] + ",x"]))
    with pytest.raises(InputError, match=r"test_pairs\.csv, line 2: YB10 is 'x', but a number"):
        PFWillow(root)[0]
    path.write_text("\n".join([lines[0], lines[1].replace("car(G)/", "")]))
    with pytest.raises(InputError, match=r"line 2: imageA is 'Cars_000.png', but folder/image"):
        PFWillow(root)
    path.write_text("\n".join([lines[0], lines[1].replace("car(G)/", "../", 1)]))
    with pytest.raises(InputError, match=r"line 2: imageA is '../Cars_000.png', but a path inside"):
        PFWillow(root)


def test_empty_folder_is_named(tmp_path):
    with pytest.raises(
        InputError, match=r"test_pairs\.csv: the pair list is missing, and there is no sub-class"
    ):
        PFWillow(tmp_path)
