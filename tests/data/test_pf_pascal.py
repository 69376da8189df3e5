"""PF-PASCAL: both layouts, common points, mirrored rows, bad lists."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from dhpf.data.mini import make_mini
from dhpf.data.pf_pascal import PFPascal
from dhpf.errors import InputError


@pytest.fixture
def official(tmp_path) -> Path:
    make_mini("pf-pascal", tmp_path / "official", seed=3)
    return tmp_path / "official"


@pytest.fixture
def columns(tmp_path) -> Path:
    make_mini("pf-pascal", tmp_path / "columns", seed=3, keypoint_columns=True)
    return tmp_path / "columns"


@pytest.mark.parametrize("split", ["val", "test"])
def test_both_layouts_say_the_same(official, columns, split):
    first, second = PFPascal(official, split), PFPascal(columns, split)
    assert len(first) == len(second) > 0
    for a, b in zip(
        (first[i] for i in range(len(first))), (second[i] for i in range(len(second))), strict=True
    ):
        assert (a.id, a.category, a.index) == (b.id, b.category, b.index)
        for photo, other in ((a.source, b.source), (a.target, b.target)):
            assert photo.path.name == other.path.name
            assert photo.size == other.size
            assert photo.points == pytest.approx(other.points, abs=1e-9)
            assert photo.box == pytest.approx(other.box, abs=1e-9)
            assert np.array_equal(photo.mask, other.mask)


def test_only_points_that_both_images_show_are_common(official):
    pair = PFPascal(official, "test")[0]
    a, b = (
        loadmat(official / "Annotations" / pair.category / f"{p.path.stem}.mat")
        for p in (pair.source, pair.target)
    )
    assert np.isnan(a["kps"]).any() and len(a["kps"]) == 10
    kept = [k for k in range(10) if not np.isnan(a["kps"][k]).any() and not np.isnan(b["kps"][k]).any()]
    assert len(kept) == 9
    assert np.array_equal(pair.source.points, a["kps"][kept])
    assert np.array_equal(pair.target.points, b["kps"][kept])
    assert np.array_equal(pair.source.box, a["bbox"][0])


def test_the_mask_is_of_the_pairs_class_and_around_its_points(official):
    pair = PFPascal(official, "test")[0]
    mask = pair.source.mask
    assert mask is not None and mask.shape == pair.source.size[::-1]
    x, y = pair.source.points.round().astype(int).T
    assert mask[y, x].all()
    assert not mask[0, 0]


def test_training_lists_without_keypoints_give_pairs_without_points(columns, official):
    weak, strong = PFPascal(columns, "trn"), PFPascal(official, "trn")
    assert [entry.id for entry in weak.entries] == [entry.id for entry in strong.entries]
    assert weak[0].source.points.shape == (0, 2)
    assert weak[0].source.box is None
    assert len(strong[0].source.points) == 9


def test_rows_with_flip_are_mirrored(official):
    dataset = PFPascal(official, "trn")
    plain, flipped = dataset[0], dataset[1]
    assert flipped.id == f"{plain.id}-mirrored"
    assert np.array_equal(flipped.source.image(), plain.source.image()[:, ::-1])
    width = plain.target.size[0]
    assert np.array_equal(flipped.target.points[:, 0], width - 1 - plain.target.points[:, 0])


def test_repeated_rows_have_ids_of_their_own(official):
    path = official / "trn_pairs.csv"
    path.write_text(path.read_text() + path.read_text().splitlines()[1] + "\n")
    ids = [entry.id for entry in PFPascal(official, "trn").entries]
    assert ids[-1] == f"{ids[0]}#2"
    assert len(set(ids)) == len(ids)


def test_the_other_name_of_the_training_list(official):
    (official / "trn_pairs.csv").rename(official / "train_pairs.csv")
    assert len(PFPascal(official, "trn")) == 12


def test_a_pair_without_common_points_is_yielded(official):
    pair = PFPascal(official, "test")[0]
    file = official / "Annotations" / pair.category / f"{pair.source.path.stem}.mat"
    savemat(file, {"kps": np.full((10, 2), np.nan), "bbox": [[0, 0, 9, 9]]})
    assert PFPascal(official, "test")[0].target.points.shape == (0, 2)


def broken(official: Path, old: str, new: str) -> None:
    path = official / "test_pairs.csv"
    path.write_text(path.read_text().replace(old, new, 1))


def test_missing_files_are_named(official):
    pair = PFPascal(official, "test")[0]
    pair.source.path.unlink()
    with pytest.raises(InputError, match=rf"{pair.source.path.name}: the image is missing"):
        PFPascal(official, "test")[0]
    (official / "Annotations" / pair.category / f"{pair.target.path.stem}.mat").unlink()
    with pytest.raises(InputError, match=rf"{pair.target.path.stem}\.mat: the annotation is missing"):
        PFPascal(official, "test")[0]
    (official / "test_pairs.csv").unlink()
    with pytest.raises(InputError, match=r"test_pairs\.csv: the pair list is missing"):
        PFPascal(official, "test")


def test_damaged_annotation_is_named(official):
    pair = PFPascal(official, "test")[0]
    file = official / "Annotations" / pair.category / f"{pair.source.path.stem}.mat"
    whole = file.read_bytes()
    for damaged in (b"", b"no matrix", whole[:130], whole[: len(whole) // 2]):
        file.write_bytes(damaged)
        with pytest.raises(InputError, match=rf"{file.name}: "):
            PFPascal(official, "test")[0]
    savemat(file, {"bbox": [[0, 0, 9, 9]]})
    with pytest.raises(InputError, match=rf"{file.name}: the annotation has no matrix 'kps'"):
        PFPascal(official, "test")[0]


def test_empty_split_is_named(official):
    (official / "test_pairs.csv").write_text("source_image,target_image,class\n")
    with pytest.raises(InputError, match=r"test_pairs\.csv: the split is empty"):
        PFPascal(official, "test")


def test_unknown_split_names_the_known_ones(official):
    with pytest.raises(InputError, match=r"no split 'train'; its splits are trn, val, test"):
        PFPascal(official, "train")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (",1\n", ",21\n", r"line 2: class is 21, but 1 to 20"),
        (",1\n", ",cat\n", r"line 2: class is 'cat', but a whole number"),
        (",1\n", "\n", r"line 2: 2 columns, but 3"),
        ("class", "category", r"no column 'class'"),
    ],
)
def test_bad_rows_are_named_by_line(official, old, new, message):
    broken(official, old, new)
    with pytest.raises(InputError, match=rf"test_pairs\.csv.*{message}"):
        PFPascal(official, "test")


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ("1;2,1;2,3;4,3;x,0;0;9;9,0;0;9;9", r"YB holds '3;x', but numbers"),
        ("1;2,1,3;4,3;4,0;0;9;9,0;0;9;9", r"2 values in XA, but 1 in YA"),
        ("1;2,1;2,3,4,0;0;9;9,0;0;9;9", r"2 points in the source, but 1 in the target"),
        ("1;2,1;2,3;4,3;nan,0;0;9;9,0;0;9;9", r"not a finite number"),
        ("1;2,1;2,3;4,3;4,0;0;9,0;0;9;9", r"bboxA holds 3 numbers, but a box has 4"),
    ],
)
def test_bad_keypoint_cells_are_named(columns, cells, message):
    path = columns / "test_pairs.csv"
    header, row = path.read_text().splitlines()[:2]
    path.write_text(f"{header}\n{','.join(row.split(',')[:3])},{cells}\n")
    with pytest.raises(InputError, match=rf"test_pairs\.csv, line 2: .*{message}"):
        PFPascal(columns, "test")[0]
