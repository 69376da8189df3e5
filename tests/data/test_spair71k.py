"""SPair-71k: layouts, flags that may be absent, file names without a colon."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dhpf.data.mini import make_mini
from dhpf.data.spair71k import FLAGS, SPair71k
from dhpf.errors import InputError


@pytest.fixture
def root(tmp_path) -> Path:
    make_mini("spair-71k", tmp_path / "spair")
    return tmp_path / "spair"


def first_file(root: Path) -> Path:
    return root / "PairAnnotation" / "test" / f"{SPair71k(root).entries[0].id}.json"


def test_a_pair_is_what_its_file_says(root):
    content = json.loads(first_file(root).read_text())
    pair = SPair71k(root)[0]
    assert pair.category == content["category"] == "bus"
    assert pair.source.path == root / "JPEGImages" / "bus" / content["src_imname"]
    assert list(pair.target.size) == content["trg_imsize"][:2]
    assert pair.source.points.tolist() == content["src_kps"]
    assert pair.target.points.tolist() == content["trg_kps"]
    assert pair.target.box is not None and pair.target.box.tolist() == content["trg_bndbox"]
    assert pair.flags == {flag: content[flag] for flag in FLAGS}
    assert pair.target.mask is not None and pair.target.mask.any()


def test_flags_and_masks_may_be_absent(root):
    file = first_file(root)
    content = json.loads(file.read_text())
    file.write_text(json.dumps({key: value for key, value in content.items() if key not in FLAGS}))
    (root / "Segmentation").rename(root / "elsewhere")
    pair = SPair71k(root)[0]
    assert pair.flags == {}
    assert pair.source.mask is None


def test_small_is_a_part_of_large(root):
    large, small = SPair71k(root, "trn"), SPair71k(root, "trn", "small")
    assert (len(large), len(small)) == (4, 2)
    assert {entry.id for entry in small.entries} < {entry.id for entry in large.entries}


def test_files_whose_colon_could_not_be_stored(root):
    expected = SPair71k(root)[0].source.points
    file = first_file(root)
    file.rename(file.with_name(file.name.replace(":", "_")))
    assert np.array_equal(SPair71k(root)[0].source.points, expected)


def test_pair_files_are_not_opened_before_they_are_needed(root):
    for file in (root / "PairAnnotation").glob("*/*"):
        file.write_text("not JSON")
    dataset = SPair71k(root)
    assert len(dataset) == 6
    with pytest.raises(InputError, match=r"bus\.json is not valid JSON"):
        dataset[0]


def test_a_pair_without_points_is_yielded(root):
    file = first_file(root)
    file.write_text(json.dumps(json.loads(file.read_text()) | {"src_kps": [], "trg_kps": []}))
    assert SPair71k(root)[0].source.points.shape == (0, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"src_kps": [[1, 2]]}, "1 points in the source, but 9 in the target"),
        ({"src_kps": [[1, 2, 3]]}, r"src_kps has shape \(1, 3\)"),
        ({"src_kps": [["a", 2]]}, "src_kps is not made of numbers"),
        ({"trg_bndbox": [1, 2]}, "trg_bndbox holds 2 numbers"),
        ({"trg_bndbox": [1, 2, 3, None]}, "not a finite number"),
        ({"trg_bndbox": [1, 2, 3, 10**400]}, "trg_bndbox is not made of numbers"),
        ({"src_kps": [[1, 1e300]] * 9}, "not a finite number, or beyond any image"),
        ({"truncation": None}, "a variation flag is not a whole number from 0 to 2"),
        ({"truncation": 10**400}, "a variation flag is not a whole number"),
    ],
)
def test_bad_annotations_are_named(root, change, message):
    file = first_file(root)
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(InputError, match=rf"bus\.json: .*{message}"):
        SPair71k(root)[0]


def test_bad_lists_are_named(root):
    path = root / "Layout" / "large" / "test.txt"
    path.write_text("")
    with pytest.raises(InputError, match=r"test\.txt: the split is empty"):
        SPair71k(root)
    for name in ("000001-a-b:unicorn", "000001-../x-b:bus", "a-b:bus"):
        path.write_text(f"{name}\n")
        with pytest.raises(InputError, match=rf"test\.txt: '{name}' is not"):
            SPair71k(root)
    path.unlink()
    with pytest.raises(InputError, match=r"no such pair list: .*test\.txt"):
        SPair71k(root)
    with pytest.raises(InputError, match="no layout 'medium'; its layouts are large and small"):
        SPair71k(root, layout="medium")
