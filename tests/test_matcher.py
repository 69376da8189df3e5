"""The bundled model on real photos, and the entrances of Matcher."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

import dhpf
from dhpf import InputError, Matcher
from dhpf.backbones.base import Features
from dhpf.grid import resize_points
from dhpf.images import read_image
from dhpf.matcher import check_device, check_size
from dhpf.methods.base import Matches
from dhpf.methods.hpf import HPF, HPFConfig
from dhpf.methods.nearest import Nearest
from dhpf.zoo import Calibration
from tests.conftest import Ran
from tests.test_own_backbone_and_method import TwoConvolutions

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
        np.testing.assert_array_equal(kept.cells.displacement, direct.cells.displacement)
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
    given, expected = quick.match(FORMS[form](photo), lion), quick.match(photo, lion)
    np.testing.assert_array_equal(given.cells.displacement, expected.cells.displacement)


def test_points_are_pixels_of_the_original_photos(matcher: Matcher, chelsea: Image.Image) -> None:
    """The same photo twice as wide and four times as high: points scale with it."""
    same = matcher.match(chelsea, chelsea.resize((600, 1024)))
    assert np.abs(resize_points(same.transfer(GRID), (600, 1024), (300, 256)) - GRID).max() < 4
    assert same.flow.shape == (256, 300, 2)


def test_errors_say_which_photo(quick: Matcher, photo: Path) -> None:
    with pytest.raises(InputError, match=r"^target is too small"):
        quick.match(photo, np.zeros((2, 2)))
    with pytest.raises(InputError, match=r"^source has shape"):
        quick.match(np.zeros(3), photo)


@pytest.fixture
def own() -> HPF:
    """A method whose weights may be changed."""
    return HPF(TwoConvolutions(), HPFConfig(layers=(0, 1)))


class Darker(TwoConvolutions):
    """The same weights on inputs that are normalised in another way."""

    mean = (0.3, 0.3, 0.3)


class Dilated(TwoConvolutions):
    """The same weights, put together in another way."""

    def __init__(self) -> None:
        super().__init__()
        self.second.padding = self.second.dilation = (2, 2)


def other_matchers(method: HPF) -> dict[str, Matcher]:
    changed = copy.deepcopy(method)
    changed.backbone.get_parameter("second.weight")[0, 0, 0, 0] += 1e-3
    others = {
        "a changed weight": changed,
        "another config": HPF(method.backbone, HPFConfig(layers=(0, 1), revote=True)),
        "another method": Nearest(method.backbone),
        "another input": HPF(Darker(), method.config),
        "another network with the same weights": HPF(Dilated(), method.config),
    }
    sizes = {"another size": Matcher(method, "other", (96, 64))}
    return {name: Matcher(other, "other", 64) for name, other in others.items()} | sizes


def test_features_of_another_matcher_are_refused(own: HPF, photo: Path) -> None:
    matcher = Matcher(own, "mine", 64)
    features = matcher.features(photo)
    for name, other in other_matchers(own).items():
        with pytest.raises(
            InputError, match=r"^source holds features of another matcher: .* of this other at"
        ):
            pytest.fail(f"took those of {name}: {other.match(features, photo)}")
    with pytest.raises(InputError, match=r"^target holds features of another matcher"):
        matcher.match(photo, Matcher(own, "mine", 96).features(photo))
    elsewhere = replace(features, device="cuda:0")
    with pytest.raises(InputError, match=r"^source holds features on cuda:0; this matcher computes on cpu"):
        matcher.match(elsewhere, photo)


def test_features_of_an_equal_matcher_are_taken(own: HPF, photo: Path) -> None:
    features, again = Matcher(own, "mine", 64).features(photo), Matcher(copy.deepcopy(own), "same", 64)
    assert again.match(features, photo).model == "same"


@pytest.mark.parametrize("part", ["displacement", "confidence", "probability"])
def test_values_that_are_no_numbers_go_no_further(own: HPF, photo: Path, part: str) -> None:
    class Spoilt(HPF):
        def match(self, a: Features, b: Features, *, matrix_bytes: int | None = None) -> Matches:
            found = super().match(a, b)
            if part == "probability":
                return found._replace(layer_probability=torch.tensor([0.5, torch.nan]))
            getattr(found.flow, part)[1, 1] = np.nan
            return found

    with pytest.raises(InputError, match=r"^spoilt computes values that are infinite or no numbers"):
        Matcher(Spoilt(own.backbone, own.config), "spoilt", 64).match(photo, photo)


class Patches(TwoConvolutions):
    """As a vision transformer: sides are multiples of 14."""

    multiple = 14


def test_sizes_are_rounded_to_what_the_backbone_takes(photo: Path) -> None:
    for given, taken in (((240, 240), (238, 238)), ((1024, 32), (1022, 28)), (70, (70, 70)), (77, (84, 84))):
        matcher = Matcher(Nearest(Patches()), "patches", given)
        assert matcher.size == taken
        assert matcher.match(photo, photo).size == taken


def test_the_command_line_notes_a_size_that_was_rounded(
    command: Callable[..., Ran], photo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dhpf.matcher.load_method", lambda *_: Nearest(Patches()))
    arguments = ["match", photo, photo, "--json", tmp_path / "m.json"]
    rounded = command(*arguments, "--size", "100x70")
    assert rounded.code == 0
    assert rounded.err == "dhpf: note: input of 98x70, as this model takes multiples of 14\n"
    assert json.loads((tmp_path / "m.json").read_text())["input_size"] == [98, 70]
    assert command(*arguments, "--size", "98x70").err == ""
    assert command(*arguments).err == ""  # nobody asked for a size


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
    monkeypatch.setattr("dhpf.matcher.load_method", lambda *_: pytest.fail("weights were read"))
    with pytest.raises(InputError):
        dhpf.load("hpf-resnet101", device="nonsense")
    with pytest.raises(InputError):
        dhpf.load("hpf-resnet101", size=7)


def test_a_mirrored_target_is_told_and_its_points_lie_in_the_target(matcher: Matcher) -> None:
    photo = read_image(dhpf.sample("chelsea"))
    mirrored = ImageOps.mirror(photo)
    either = Matcher(matcher.method, matcher.name, matcher.size, flip="auto")
    points = np.array([[160.0, 90.0], [220.0, 100.0], [180.0, 160.0]])
    found = either.match(photo, mirrored)
    assert found.flipped and found.to_dict(points)["flipped"] is True
    landed = found.transfer(points)
    expected = np.stack([photo.width - 1 - points[:, 0], points[:, 1]], 1)
    assert np.abs(landed - expected).max() < 6  # cells are 4 of 240 pixels apart, 7.5 of the photo's
    x, y = landed[0]
    grid, scores = found.target_grid, found.scores(points[0])
    row, column = np.unravel_index(scores.argmax(), scores.shape)
    best = resize_points(grid.centres()[row, column], found.size, photo.size)
    assert np.abs(best - [x, y]).max() < 15
    same = either.match(photo, either.features(photo))
    assert not same.flipped
    assert not matcher.match(photo, mirrored).flipped  # only if asked for


def test_flip_must_be_known(matcher: Matcher) -> None:
    with pytest.raises(InputError, match="flip = 'yes'; wanted: none or auto"):
        Matcher(matcher.method, matcher.name, flip="yes")


def test_confidence_means_how_often_it_is_right(matcher: Matcher) -> None:
    photos = dhpf.sample("cheetah"), dhpf.sample("cheetah_cub")
    plain = Matcher(matcher.method, matcher.name, 64)
    meaning = Calibration(confidence=(0.0, 0.1, 0.4), right=(0.0, 0.5, 0.9))
    meant = Matcher(matcher.method, matcher.name, 64, calibration=meaning)
    raw, found = plain.match(*photos).cells.confidence, meant.match(*photos).cells.confidence
    # By hand: 5 a unit up to 0.1, then 4/3 a unit up to 0.4, then 0.9.
    expected = np.where(raw < 0.1, 5 * raw, np.minimum(0.5 + (raw - 0.1) * 4 / 3, 0.9))
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert plain.fingerprint != meant.fingerprint


@pytest.mark.parametrize(
    ("confidence", "right", "says"),
    [
        ((0.5, 0.1), (0.0, 1.0), "confidence = .*ascending"),
        ((0.1, 0.5), (0.9, 0.5), "right = .*ascending"),
        ((0.1, 0.5), (0.1, 1.5), "right = .*from 0 to 1"),
        ((0.1, 0.5), (0.1,), "not equally long"),
        ((), (), "confidence = "),
    ],
)
def test_a_map_that_cannot_be_one(confidence: Any, right: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        Calibration(confidence, right)


def test_the_default_model_on_two_photos() -> None:
    found = dhpf.load().match(dhpf.sample("cheetah"), dhpf.sample("cheetah_cub"))
    assert found.model == "dinov2-small" and found.size == (448, 448)
    eyes_and_nose = found.transfer([[88, 92], [162, 92], [125, 148]])
    assert np.linalg.norm(eyes_and_nose - [[164, 196], [308, 186], [242, 262]], axis=1).max() < 15
    points = found.keypoints()
    assert 3 <= len(points) <= 12 and found.on_objects(points).min() >= 0.7
