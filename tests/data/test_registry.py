"""Data sets by name."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dhpf.data.mini import make_mini
from dhpf.data.registry import DATASETS, open_dataset, recognise, splits_in
from dhpf.errors import InputError
from dhpf.evaluate.protocol import protocol_for


@pytest.mark.parametrize("name", DATASETS)
def test_every_name_opens_its_data_set_and_is_recognised(tmp_path, name):
    make_mini(name, tmp_path)
    assert recognise(tmp_path).name == name
    assert splits_in(DATASETS[name], tmp_path) == tuple(DATASETS[name].pairs or ["all"])
    for split in splits_in(DATASETS[name], tmp_path):
        dataset = open_dataset(name, tmp_path, split)
        assert (dataset.name, dataset.split) == (name, split)
        assert len({entry.id for entry in dataset.entries}) == len(dataset) > 0
    with pytest.raises(InputError, match=rf"{name} has no split 'dev'"):
        open_dataset(name, tmp_path, "dev")


@pytest.mark.parametrize("name", sorted(DATASETS.keys() - {"caltech-101"}))
def test_the_threshold_is_that_of_the_default_protocol(name):
    assert DATASETS[name].threshold == protocol_for(name).threshold


def test_a_near_miss_is_told_the_nearest_name(tmp_path):
    with pytest.raises(InputError, match=r"unknown data set 'PF-PASCL': did you mean 'pf-pascal'\?"):
        open_dataset("PF-PASCL", tmp_path)


def test_an_unknown_folder_says_what_is_looked_for(tmp_path):
    with pytest.raises(InputError, match=r"not a folder of a known data set .*coco has \*\.json"):
        recognise(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        recognise(tmp_path / "absent")


def test_data_sets_and_images_need_no_torch():
    code = "import sys, dhpf.data.check, dhpf.images, dhpf.cli.data; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
