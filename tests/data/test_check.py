"""What `check` says about whole and broken folders."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from PIL import Image

from dhpf.data.check import check
from dhpf.data.mini import make_mini
from dhpf.data.registry import DATASETS

SPLITS = {name: list(info.pairs) or ["all"] for name, info in DATASETS.items()}


@pytest.mark.parametrize("name", DATASETS)
def test_a_whole_folder_is_complete(tmp_path, name):
    make_mini(name, tmp_path)
    complete, lines = check(tmp_path)
    assert complete
    assert lines[0] == f"{name} in {tmp_path}"
    assert [line.split(":")[0].strip() for line in lines[1:-2]] == SPLITS[name]
    assert lines[-1].startswith("complete")


@pytest.fixture
def pascal(tmp_path) -> Path:
    make_mini("pf-pascal", tmp_path / "pascal")
    return tmp_path / "pascal"


def test_every_kind_of_damage_is_counted_and_named(pascal):
    images = sorted((pascal / "JPEGImages").iterdir())
    images[0].unlink()
    images[1].write_bytes(images[1].read_bytes()[:-300])
    (pascal / "val_pairs.csv").unlink()
    test = pascal / "test_pairs.csv"
    header, first, *others = test.read_text().splitlines()
    test.write_text("\n".join([header, first.replace(";", "?"), *others]))
    complete, lines = check(pascal)
    assert not complete
    text = "\n".join(lines)
    for expected in (
        "  test: 9 pairs (the official list has 299)\n  1 x unreadable annotation:\n"
        f"    {test}, line 2: XA is ",
        f"  1 x unusable pair list:\n    no such pair list: {pascal / 'val_pairs.csv'}",
        "  images: 12 named by the lists",
        f"  1 x missing image:\n    {images[0]}",
        f"  1 x damaged image:\n    {images[1]} is damaged or cut off",
    ):
        assert expected in text
    assert lines[-1] == "not complete"


def test_a_problem_that_many_pairs_share_is_named_once(tmp_path):
    make_mini("pf-willow", tmp_path)
    (tmp_path / "test_pairs.csv").unlink()
    file = tmp_path / "car(G)" / "Cars_000.mat"
    file.write_bytes(b"nothing")
    lines = check(tmp_path).lines
    assert lines[2] == "  1 x unreadable annotation:"
    assert lines[3].startswith(f"    {file} is not an annotation")


def test_only_the_first_names_are_shown(pascal):
    for image in (pascal / "JPEGImages").iterdir():
        image.unlink()
    lines = check(pascal).lines
    start = lines.index("  12 x missing image:")
    assert lines[start + 4] == "    and 9 more"


def test_pairs_without_points_are_counted(pascal):
    training = pascal / "trn_pairs.csv"
    rows = [row.split(",")[:3] for row in training.read_text().splitlines()]
    training.write_text("".join(",".join(row) + "\n" for row in rows))
    complete, lines = check(pascal)
    assert complete
    assert "  trn: 12 pairs (the official list has 2,940; 12 without a common point)" in lines


def test_official_counts_make_a_folder_simply_complete(pascal, monkeypatch):
    counts = {"trn": 12, "val": 3, "test": 9}
    info = dataclasses.replace(DATASETS["pf-pascal"], pairs=counts)
    monkeypatch.setattr("dhpf.data.check.recognise", lambda root: info)
    assert check(pascal).lines[-1] == "complete"


@pytest.mark.parametrize("pattern", ["JPEGImages/*.jpg", "test_pairs.csv"])
@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"nothing")])
def test_one_file_is_enough_to_be_incomplete(pascal, pattern, damage):
    damage(sorted(pascal.glob(pattern))[-1])
    assert not check(pascal).complete


def test_an_image_of_another_size_than_its_coco_annotation_says(tmp_path):
    make_mini("coco", tmp_path)
    image = tmp_path / "images" / "cup_1.jpg"
    Image.open(image).resize((45, 60)).save(image)
    lines = check(tmp_path).lines
    start = lines.index("  1 x damaged image:")
    assert lines[start + 1] == f"    {image} has 45 x 60 pixels, but its annotation is for 90 x 120"


def test_every_coco_file_is_a_split(tmp_path):
    make_mini("coco", tmp_path)
    content = json.loads((tmp_path / "annotations.json").read_text())
    (tmp_path / "cups.json").write_text(json.dumps(content | {"annotations": content["annotations"][:4]}))
    complete, lines = check(tmp_path)
    assert (complete, lines[1:3]) == (True, ("  all: 12 pairs", "  cups: 6 pairs"))
