"""The sample: mirroring, swapping, and travelling through a loader."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch.utils.data import DataLoader

from dhpf.data.mini import make_mini
from dhpf.data.pairs import ClassMap, Pair, Photo, unique
from dhpf.data.registry import open_dataset
from dhpf.errors import InputError


def photo(size: tuple[int, int], points: list[tuple[float, float]]) -> Photo:
    polygon = np.array([[-0.5, -0.5], [3.0, -0.5], [-0.5, 1.9]])
    return Photo(
        Path("a.png"), size, np.array(points, float).reshape(-1, 2), np.array([1.0, 2.0, 4.0, 5.0]), polygon
    )


def test_mirror_by_hand():
    mirrored = photo((10, 8), [(2.0, 3.0), (9.0, 0.5)]).mirror()
    assert mirrored.points.tolist() == [[7.0, 3.0], [0.0, 0.5]]
    assert mirrored.box is not None and mirrored.box.tolist() == [5.0, 2.0, 8.0, 5.0]
    assert mirrored.polygon is not None and mirrored.polygon.tolist() == [
        [9.5, -0.5],
        [6.0, -0.5],
        [9.5, 1.9],
    ]
    assert mirrored.mirrored


def test_names_follow_what_is_seen():
    named = Photo(Path("a.png"), (10, 8), np.zeros((3, 2)), names=("L_Eye", "R_Eye", "Nose"))
    assert named.mirror().names == ("R_Eye", "L_Eye", "Nose")
    assert named.mirror().mirror().names == named.names


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 400)), max_size=5), st.integers(1, 500))
def test_mirror_twice_is_nothing(points, width):
    once = Photo(Path("a.png"), (width, 9), np.array(points, float).reshape(-1, 2))
    twice = once.mirror().mirror()
    assert np.array_equal(twice.points, once.points)
    assert not twice.mirrored


def test_points_stay_on_their_pixels_and_masks_on_their_objects(tmp_path):
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (8, 11, 3), np.uint8)
    labels = rng.integers(0, 3, (8, 11), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    Image.fromarray(labels).save(tmp_path / "m.png")
    points = np.array([[0, 0], [10, 7], [3, 2]], float)
    here = Photo(tmp_path / "a.png", (11, 8), points, class_map=ClassMap(tmp_path / "m.png", 2))
    there = here.mirror()
    for one, other in zip(here.points.astype(int), there.points.astype(int), strict=True):
        assert np.array_equal(here.image()[one[1], one[0]], there.image()[other[1], other[0]])
        assert here.mask is not None and there.mask is not None
        assert here.mask[one[1], one[0]] == there.mask[other[1], other[0]]


def test_mask_of_a_mirrored_outline_is_the_mirrored_mask():
    here = photo((10, 8), [])
    assert here.mask is not None and here.mask.sum() == 4  # (0, 0), (1, 0), (2, 0) and (0, 1), by hand
    assert np.array_equal(here.mirror().mask, here.mask[:, ::-1])


def test_mask_of_another_size_is_an_error(tmp_path):
    Image.new("L", (12, 10)).save(tmp_path / "m.png")
    wrong = Photo(tmp_path / "a.png", (9, 6), np.zeros((0, 2)), class_map=ClassMap(tmp_path / "m.png", 2))
    with pytest.raises(InputError, match=r"m\.png: the mask is 12 x 10 pixels, but its image is 9 x 6"):
        _ = wrong.mask


def test_swap_exchanges_the_photos():
    a, b = photo((10, 8), [(1, 1)]), photo((12, 8), [(2, 2)])
    swapped = Pair("id", 0, "cat", a, b).swap()
    assert (swapped.source, swapped.target) == (b, a)


def test_repeated_ids_are_told_apart():
    assert unique(["a", "b", "a", "a"]) == ["a", "b", "a#2", "a#3"]
    assert unique(["a", "a#2", "a", "a"]) == ["a", "a#2", "a#3", "a#4"]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_loader_workers_give_the_same_pairs(tmp_path):
    make_mini("spair-71k", tmp_path)
    dataset = open_dataset("spair-71k", tmp_path, "test")
    batches = list(DataLoader(dataset, batch_size=4, num_workers=2, collate_fn=list))
    assert [len(batch) for batch in batches] == [4, 2]
    for index, pair in enumerate(pair for batch in batches for pair in batch):
        assert (pair.id, pair.index) == (dataset[index].id, index)
        assert np.array_equal(pair.source.points, dataset[index].source.points)
        assert np.array_equal(pair.target.image(), dataset[index].target.image())
