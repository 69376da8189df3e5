"""flip="auto": an image is seen mirrored once, and only if it is a target."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

import dhpf
from dhpf import Matcher
from dhpf.annotate.feature_store import FeatureStore
from dhpf.annotate.transfer import View
from dhpf.backbones.base import Features
from dhpf.feature_cache import FeatureCache
from tests.conftest import Ran


class Counting(Matcher):
    """Counts how often its backbone runs."""

    passes = 0

    def see(self, photo: Image.Image, mirrored: bool = False) -> Features:
        self.passes += 1
        return super().see(photo, mirrored)


@pytest.fixture
def either(matcher: Matcher) -> Counting:
    return Counting(matcher.method, matcher.name, 96, flip="auto")


@pytest.fixture
def facing(tmp_path: Path) -> tuple[Path, Path]:
    """A cat, and the same cat mirrored."""
    cat, mirrored = tmp_path / "cat.png", tmp_path / "photos" / "mirrored.png"
    mirrored.parent.mkdir()
    with Image.open(dhpf.sample("chelsea")) as photo:
        photo.save(cat)
        ImageOps.mirror(photo).save(mirrored)
    return cat, mirrored


def test_three_passes_for_two_photos(either: Counting, facing: tuple[Path, Path]) -> None:
    assert either.match(*facing).flipped
    assert either.passes == 3
    plain = Counting(either.method, either.name, 96)
    assert not plain.match(*facing).flipped
    assert plain.passes == 2


def test_features_at_hand_are_seen_mirrored_when_first_a_target(
    either: Counting, facing: tuple[Path, Path]
) -> None:
    direct = either.match(*facing)
    either.passes = 0
    cat, mirrored = (either.features(path) for path in facing)
    passes = [either.passes]
    for source, target in ((cat, mirrored), (cat, mirrored), (mirrored, cat)):
        found = either.match(source, target)
        passes.append(either.passes)
        assert found.flipped
        if source is cat:
            np.testing.assert_array_equal(found.cells.displacement, direct.cells.displacement)
    assert passes == [2, 3, 3, 4]
    copied = pickle.loads(pickle.dumps(mirrored))  # it has to be seen again, but can be
    assert either.match(cat, copied).flipped


def test_memory_counts_before_it_is_needed(either: Counting, facing: tuple[Path, Path]) -> None:
    """Else what a cache holds would grow behind its back."""
    cache = FeatureCache(either.features, limit_bytes=2**40)
    cat, mirrored = (cache.get(path) for path in facing)
    before = cache.held_bytes
    either.match(cat, mirrored)
    assert mirrored.mirrored is not None
    both = mirrored.features.nbytes + mirrored.mirrored().nbytes
    assert mirrored.nbytes == both + 3 * mirrored.image.width * mirrored.image.height
    assert cat.nbytes + mirrored.nbytes == before == cache.held_bytes


def test_features_on_the_disc_hold_both_orientations(either: Counting, facing: tuple[Path, Path]) -> None:
    cat, mirrored = facing
    direct = either.match(cat, mirrored)
    for computed in (3, 0):
        store = FeatureStore(either, cat.parent / "features")
        found = either.match(store.get(View(cat)), store.get(View(mirrored)))
        assert found.flipped and store.computed == computed
        points = [[160, 90], [220, 100], [180, 160]]
        np.testing.assert_allclose(found.transfer(points), direct.transfer(points), atol=2)


def test_annotating_with_features_flips(
    command: Callable[..., Ran], facing: tuple[Path, Path], tmp_path: Path
) -> None:
    """With --features and without, the labels of the mirrored cat are the same."""
    cat, mirrored = facing
    options = ["--points", "160,90 220,100", "--flip", "auto", "--size", 96, "--model", "hpf-resnet50"]
    written = []
    for name, more in (("plain", []), ("kept", ["--features", tmp_path / "features"])):
        out = tmp_path / f"{name}.csv"
        ran = command("annotate", cat, mirrored.parent, "--out", out, "--format", "csv", *options, *more)
        assert ran.code == 0, ran.err
        rows = [line.split(",") for line in out.read_text().splitlines()]
        x = rows[0].index("x")
        written.append([[float(value) for value in row[x : x + 2]] for row in rows[1:]])
    np.testing.assert_allclose(written[1], written[0], atol=2)
    assert np.abs(np.array(written[1])[:, 0] - [451 - 1 - 160, 451 - 1 - 220]).max() < 15
