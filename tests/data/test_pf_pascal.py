"""PF-PASCAL: both layouts, common points, mirrored rows, bad lists."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from dhpf.data.mini import make_mini
from dhpf.data.pf_pascal import CLASSES, PFPascal
from dhpf.errors import InputError


@pytest.fixture
def columns(tmp_path) -> Path:
    make_mini("pf-pascal", tmp_path / "columns", seed=3)
    return tmp_path / "columns"


@pytest.fixture
def official(columns, tmp_path) -> Path:
    """The same images with matrices of other keypoints, each image without one of ten, and bare lists."""
    root = tmp_path / "official"
    shutil.copytree(columns, root)
    rng = np.random.default_rng(5)
    for path in root.glob("*_pairs.csv"):
        lines = [line.split(",") for line in path.read_text().splitlines()]
        for row in lines:
            del row[3:9]  # XA, YA, XB, YB, bboxA, bboxB
        for row in lines[1:]:
            row[:2] = [f"PF-dataset-PASCAL/{name}" for name in row[:2]]
        path.write_text("".join(",".join(row) + "\n" for row in lines))
    for image in sorted((root / "JPEGImages").iterdir()):
        file = root / "Annotations" / CLASSES[int(image.stem[5:8]) - 1] / f"{image.stem}.mat"
        file.parent.mkdir(parents=True, exist_ok=True)
        points = rng.uniform(0, 89, (10, 2))
        points[int(image.stem[-1])] = np.nan
        savemat(file, {"kps": points, "bbox": rng.uniform(0, 89, (1, 4))})
    return root


@pytest.mark.parametrize("split", ["trn", "val", "test"])
def test_both_layouts_name_the_same_pairs(official, columns, split):
    first, second = PFPascal(official, split), PFPascal(columns, split)
    assert len(first) == len(second) > 0
    for index in range(len(first)):
        a, b = first[index], second[index]
        assert (a.id, a.category, a.index) == (b.id, b.category, b.index)
        for photo, other in ((a.source, b.source), (a.target, b.target)):
            assert photo.path.name == other.path.name
            assert photo.size == other.size
            assert np.array_equal(photo.mask, other.mask)


@pytest.mark.parametrize("separator", [";", ","])
def test_columns_are_what_their_cells_say(columns, separator):
    cells = [separator.join(cell) for cell in (("1", "2.5"), ("3", "4"), ("5", "6"), ("7", "-0.5"))]
    boxes = [separator.join(cell) for cell in (("0", "1", "20", "30"), ("2", "3", "40", "50"))]
    with (columns / "test_pairs.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["source_image", "target_image", "class", "XA", "YA", "XB", "YB", "bboxA", "bboxB"])
        writer.writerow(["2008_001000.jpg", "2008_001001.jpg", 1, *cells, *boxes])
    pair = PFPascal(columns, "test")[0]
    assert pair.source.points.tolist() == [[1, 3], [2.5, 4]]
    assert pair.target.points.tolist() == [[5, 7], [6, -0.5]]
    assert pair.source.box is not None and pair.source.box.tolist() == [0, 1, 20, 30]
    assert pair.target.box is not None and pair.target.box.tolist() == [2, 3, 40, 50]


def test_only_points_that_both_images_show_are_common(official):
    pair = PFPascal(official, "test")[0]
    a, b = (
        loadmat(official / "Annotations" / pair.category / f"{p.path.stem}.mat")
        for p in (pair.source, pair.target)
    )
    assert np.isnan(a["kps"]).any() and len(a["kps"]) == 10
    kept = [k for k in range(10) if not np.isnan(a["kps"][k]).any() and not np.isnan(b["kps"][k]).any()]
    assert len(kept) == 8
    assert np.array_equal(pair.source.points, a["kps"][kept])
    assert np.array_equal(pair.target.points, b["kps"][kept])
    assert np.array_equal(pair.source.box, a["bbox"][0])


def test_the_mask_is_of_the_pairs_class_and_around_its_points(columns):
    pair = PFPascal(columns, "test")[0]
    mask = pair.source.mask
    assert mask is not None and mask.shape == pair.source.size[::-1]
    x, y = pair.source.points.round().astype(int).T
    assert mask[y, x].all()
    assert not mask[0, 0]


def test_training_lists_without_keypoints_give_pairs_without_points(columns, official):
    shutil.rmtree(official / "Annotations")
    weak, strong = PFPascal(official, "trn"), PFPascal(columns, "trn")
    assert [entry.id for entry in weak.entries] == [entry.id for entry in strong.entries]
    assert weak[0].source.points.shape == (0, 2)
    assert weak[0].source.box is None
    assert len(strong[0].source.points) == 9


@pytest.mark.parametrize("layout", ["official", "columns"])
def test_rows_with_flip_are_mirrored(request, layout):
    dataset = PFPascal(request.getfixturevalue(layout), "trn")
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
    with pytest.raises(InputError, match=rf"no such image: {pair.source.path}"):
        PFPascal(official, "test")[0]
    (official / "Annotations" / pair.category / f"{pair.target.path.stem}.mat").unlink()
    with pytest.raises(InputError, match=rf"no such file of annotations: .*{pair.target.path.stem}\.mat"):
        PFPascal(official, "test")[0]
    (official / "test_pairs.csv").unlink()
    with pytest.raises(InputError, match=r"no such pair list: .*test_pairs\.csv"):
        PFPascal(official, "test")


def test_damaged_annotation_is_named(official):
    pair = PFPascal(official, "test")[0]
    file = official / "Annotations" / pair.category / f"{pair.source.path.stem}.mat"
    whole = file.read_bytes()
    for damaged in (b"", b"no matrix", whole[:130], whole[: len(whole) // 2]):
        file.write_bytes(damaged)
        with pytest.raises(InputError, match=rf"{file.name} is not an annotation"):
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
        ("2008_001002.jpg", "..", r"line 2: source_image is '\.\.', but a path inside the data set's folder"),
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
        ("1;2,1;2,3;4,3;x,0;0;9;9,0;0;9;9", r"YB is '3;x', but numbers"),
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
