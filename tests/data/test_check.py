"""What `check` says about whole and broken folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from dhpf.data.check import check
from dhpf.data.mini import make_mini
from dhpf.data.registry import DATASETS


@pytest.mark.parametrize("name", DATASETS)
def test_a_whole_folder_is_complete(tmp_path, name):
    make_mini(name, tmp_path)
    report = check(tmp_path)
    assert report.complete
    assert [split.split for split in report.splits] == list(DATASETS[name].pairs)
    assert list(report.lines())[-1].startswith("complete")


@pytest.fixture
def pascal(tmp_path) -> Path:
    make_mini("pf-pascal", tmp_path / "pascal")
    return tmp_path / "pascal"


def test_every_kind_of_damage_is_counted_and_named(pascal):
    images = sorted((pascal / "JPEGImages").iterdir())
    images[0].unlink()
    images[1].write_bytes(images[1].read_bytes()[:-300])
    matrices = sorted((pascal / "Annotations").rglob("*.mat"))
    matrices[-1].write_bytes(b"nothing")
    (pascal / "val_pairs.csv").unlink()
    report = check(pascal)
    assert not report.complete
    assert report.images == 12
    assert report.missing == (images[0],)
    assert [images[1].name in line for line in report.damaged] == [True]
    assert ["val_pairs.csv: the pair list is missing" in line for line in report.lists] == [True]
    problems = {split.split: split.problems for split in report.splits}
    assert problems["trn"] == ()
    assert [matrices[-1].name in line for line in problems["test"]] == [True]  # once, for its three pairs
    text = "\n".join(report.lines())
    for expected in (
        "test: 9 pairs (the official list has 299)",
        "1 x unreadable annotation",
        "1 x missing image",
        "1 x damaged image",
        "1 x unusable pair list",
    ):
        assert expected in text
    assert text.endswith("not complete")


def test_only_the_first_names_are_shown(pascal):
    for image in (pascal / "JPEGImages").iterdir():
        image.unlink()
    lines = list(check(pascal).lines())
    start = lines.index("  12 x missing image:")
    assert lines[start + 4] == "    and 9 more"


def test_pairs_without_points_are_counted(tmp_path):
    make_mini("pf-pascal", tmp_path, keypoint_columns=True)
    report = check(tmp_path)
    assert [split.without_points for split in report.splits] == [12, 0, 0]
    assert report.complete
    assert "12 without a common point" in "\n".join(report.lines())


def test_official_counts_make_a_folder_simply_complete(pascal, monkeypatch):
    monkeypatch.setattr(
        "dhpf.data.check.recognise",
        lambda root: type(DATASETS["pf-pascal"])(
            **{**vars(DATASETS["pf-pascal"]), "pairs": {"trn": 12, "val": 3, "test": 9}}
        ),
    )
    assert list(check(pascal).lines())[-1] == "complete"


@pytest.mark.parametrize("pattern", ["JPEGImages/*.jpg", "Annotations/*/*.mat", "test_pairs.csv"])
@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"nothing")])
def test_one_file_is_enough_to_be_incomplete(pascal, pattern, damage):
    damage(sorted(pascal.glob(pattern))[-1])
    assert not check(pascal).complete
