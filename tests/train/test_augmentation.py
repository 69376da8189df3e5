"""Points move with the pixels that they mark."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dhpf.backbones.base import Backbone
from dhpf.data.pairs import Photo
from dhpf.images import to_input
from dhpf.train.augmentation import Augmentation, random_augmentation
from dhpf.train.config import AugmentConfig

NORMAL = Backbone.mean, Backbone.std
AUGMENT = AugmentConfig(augmentations=8, crop=0.4, colour=0.3)
SIZE = (96, 64)  # width, height


def marked(path: Path, spots: list[tuple[int, int]]) -> Photo:
    """A grey photo of 120 x 80 with a bright square of 3 x 3 pixels around each spot."""
    image = np.full((80, 120, 3), 60, np.uint8)
    for x, y in spots:
        image[y - 1 : y + 2, x - 1 : x + 2] = 255
    Image.fromarray(image).save(path)
    return Photo(path, (120, 80), np.array(spots, np.float64))


def brightest(one: Augmentation, photo: Photo) -> np.ndarray:
    """Centre of what is bright in the network's input, x then y."""
    tensor = one.tensor(photo, SIZE, *NORMAL)[0].numpy()
    grey = (tensor * np.array(NORMAL[1])[:, None, None] + np.array(NORMAL[0])[:, None, None]).mean(0)
    weight = np.clip(grey - grey.min() - 0.2 * np.ptp(grey), 0, None)
    y, x = np.indices(grey.shape)
    return np.array([(x * weight).sum(), (y * weight).sum()]) / weight.sum()


@pytest.mark.parametrize("number", range(8))
@pytest.mark.parametrize("mirrored", [False, True])
def test_points_follow_crops(tmp_path, number, mirrored):
    photo = marked(tmp_path / f"{number}.png", [(57, 41)])
    if mirrored:
        photo = photo.mirror()
    one = random_augmentation(AUGMENT, 5, photo, number)
    (point,) = one.points(photo, SIZE)
    assert np.abs(point - brightest(one, photo)).max() < 0.2


def test_by_hand(tmp_path):
    photo = marked(tmp_path / "photo.png", [(57, 41)])
    one = Augmentation(box=(0.25, 0.125, 0.75, 1.0))  # columns 30 to 90, rows 10 to 80
    assert one.points(photo, SIZE)[0] == pytest.approx([27.5 * 96 / 60 - 0.5, 31.5 * 64 / 70 - 0.5])


def test_points_that_are_cut_off_lie_outside(tmp_path):
    photo = marked(tmp_path / "photo.png", [(10, 41), (110, 41)])
    left, right = Augmentation(box=(0.25, 0.0, 0.75, 1.0)).points(photo, SIZE)
    assert left[0] < 0
    assert right[0] >= SIZE[0]


def test_number_0_is_the_photo_as_it_is(tmp_path):
    photo = marked(tmp_path / "photo.png", [(57, 41)])
    one = random_augmentation(AUGMENT, 5, photo, 0)
    assert one == Augmentation()
    assert one.tensor(photo, SIZE, *NORMAL).equal(to_input(Image.open(photo.path), SIZE, *NORMAL))
    assert one.points(photo, SIZE)[0] == pytest.approx([57.5 * 96 / 120 - 0.5, 41.5 * 64 / 80 - 0.5])


def test_without_changes_every_augmentation_is_plain(tmp_path):
    photo = marked(tmp_path / "photo.png", [(57, 41)])
    assert random_augmentation(AugmentConfig(augmentations=4), 5, photo, 3) == Augmentation()


def test_augmentations_depend_on_photo_number_and_seed_alone(tmp_path):
    one, two = marked(tmp_path / "one.png", [(57, 41)]), marked(tmp_path / "two.png", [(57, 41)])
    again = Photo(one.path, one.size, np.zeros((0, 2)))
    assert random_augmentation(AUGMENT, 5, one, 1) == random_augmentation(AUGMENT, 5, again, 1)
    different = [
        random_augmentation(AUGMENT, 5, one, 1),
        random_augmentation(AUGMENT, 5, one, 2),
        random_augmentation(AUGMENT, 6, one, 1),
        random_augmentation(AUGMENT, 5, two, 1),
        random_augmentation(AUGMENT, 5, one.mirror(), 1),
    ]
    assert len(set(different)) == len(different)


def test_changes_stay_within_their_limits(tmp_path):
    photo = marked(tmp_path / "photo.png", [(57, 41)])
    for number in range(1, 60):
        left, top, right, bottom = random_augmentation(AUGMENT, 5, photo, number).box
        assert 0 <= left < right <= 1 + 1e-12
        assert 0 <= top < bottom <= 1 + 1e-12
        assert min(right - left, bottom - top) >= 1 - AUGMENT.crop
        one = random_augmentation(AUGMENT, 5, photo, number)
        for factor in (one.brightness, one.contrast, one.saturation):
            assert abs(np.log(factor)) <= AUGMENT.colour


def test_colours_change_as_they_say(tmp_path):
    photo = marked(tmp_path / "photo.png", [(57, 41)])
    darker = Augmentation(brightness=0.5).tensor(photo, (120, 80), *NORMAL)[0, 0, 0, 0].item()
    assert darker * NORMAL[1][0] + NORMAL[0][0] == pytest.approx(30 / 255, abs=1e-3)
