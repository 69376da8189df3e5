"""The bundled model on real photos, and the entrances of Matcher."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import dhpf
from dhpf import InputError, Matcher
from dhpf.images import read_image
from dhpf.matcher import check_device, check_size

GRID = np.stack(np.meshgrid(np.linspace(30, 220, 8), np.linspace(30, 220, 8)), -1).reshape(-1, 2)


@pytest.fixture(scope="module")
def chelsea() -> Image.Image:
    with Image.open(dhpf.sample("chelsea")) as photo:
        return photo.convert("RGB").resize((300, 256))


def test_a_photo_matches_itself(matcher: Matcher, chelsea: Image.Image) -> None:
    same = matcher.match(chelsea, chelsea)
    error = np.linalg.norm(same.transfer(GRID) - GRID, axis=1)
    assert error.max() < 4
    assert same.confidence.mean() > 0.5
    assert same.layers == (2, 7, 11, 12, 15)


def test_a_shifted_photo_matches_where_it_was_shifted_to(matcher: Matcher, chelsea: Image.Image) -> None:
    moved = matcher.match(chelsea.crop((0, 0, 260, 256)), chelsea.crop((40, 0, 300, 256)))
    inner = GRID[GRID[:, 0] > 60]  # still in the picture
    error = np.linalg.norm(moved.transfer(inner) - (inner - [40, 0]), axis=1)
    assert np.median(error) < 4
    assert error.max() < 12


def test_eyes_of_one_cheetah_go_to_the_eyes_of_another(matcher: Matcher) -> None:
    found = matcher.match(dhpf.sample("cheetah"), dhpf.sample("cheetah_cub"))
    eyes = found.transfer([[88, 92], [162, 92]])
    assert np.linalg.norm(eyes - [[164, 196], [308, 186]], axis=1).max() < 25


def test_features_computed_once_give_the_same_match(quick: Matcher, chelsea: Image.Image) -> None:
    other = dhpf.sample("lion")
    direct = quick.match(chelsea, other)
    a, b = quick.features(chelsea), quick.features(other)
    for kept in (quick.match(a, b), quick.match(a, other), quick.match(chelsea, b)):
        np.testing.assert_array_equal(kept.best, direct.best)
    assert a.nbytes == 300 * 256 * 3 + a.features.nbytes


FORMS: dict[str, Callable[[Path], Any]] = {
    "text": str,
    "PIL": read_image,
    "array": lambda path: np.asarray(read_image(path)),
    "floats": lambda path: np.asarray(read_image(path)) / 255,
    "tensor": lambda path: torch.from_numpy(np.array(read_image(path))).permute(2, 0, 1),
}


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_of_a_photo_match_alike(quick: Matcher, photo: Path, form: str) -> None:
    lion = dhpf.sample("lion")
    np.testing.assert_array_equal(quick.match(FORMS[form](photo), lion).best, quick.match(photo, lion).best)


def test_points_are_pixels_of_the_original_photos(matcher: Matcher, chelsea: Image.Image) -> None:
    """The same photo twice as wide and four times as high: points scale with it."""
    same = matcher.match(chelsea, chelsea.resize((600, 1024)))
    assert np.abs(same.transfer(GRID) / (2, 4) - GRID).max() < 4
    assert same.flow.shape == (256, 300, 2)


def test_errors_say_which_photo(quick: Matcher, photo: Path) -> None:
    with pytest.raises(InputError, match=r"^target is too small"):
        quick.match(photo, np.zeros((2, 2)))
    with pytest.raises(InputError, match=r"^source has shape"):
        quick.match(np.zeros(3), photo)


def test_features_of_another_matcher_are_refused(matcher: Matcher, quick: Matcher, photo: Path) -> None:
    with pytest.raises(
        InputError, match=r"source holds features of another matcher \(hpf-resnet50, 240 x 240\)"
    ):
        quick.match(matcher.features(photo), photo)
    with pytest.raises(InputError, match=r"target holds features of another matcher"):
        quick.match(photo, Matcher(quick.network, "other", 64).features(photo))


@pytest.mark.parametrize(
    ("given", "sides"),
    [(64, (64, 64)), ((96, 64), (96, 64)), ([32, 1024], (32, 1024)), (np.int64(64), (64, 64))],
)
def test_sizes(given: Any, sides: tuple[int, int]) -> None:
    assert check_size(given) == sides


@pytest.mark.parametrize("size", [31, 1025, 0, -3, (240, 5), (240,), (1, 2, 3), 240.0, "240", None])
def test_impossible_sizes(size: Any) -> None:
    with pytest.raises(InputError, match=r"^size"):
        check_size(size)


@pytest.mark.parametrize("device", ["gpu", "mps", "meta", "cuda:99", ""])
def test_devices_that_are_not_there(device: str) -> None:
    with pytest.raises(InputError, match=r"device|compute"):
        check_device(device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is CUDA")
def test_cuda_without_cuda() -> None:
    with pytest.raises(InputError, match=r"no device 'cuda': 0 CUDA devices found; use cpu"):
        dhpf.load(device="cuda")


def test_a_bad_device_is_found_before_weights_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dhpf.matcher.load_network", lambda *_: pytest.fail("weights were read"))
    with pytest.raises(InputError):
        dhpf.load("hpf-resnet101", device="nonsense")
    with pytest.raises(InputError):
        dhpf.load("hpf-resnet101", size=7)
