"""Votes and how they are fused, by hand; views of photos; what is moved lands where it belongs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dhpf import InputError, Matcher
from dhpf.annotate.annotations import Category, LabelledObject
from dhpf.annotate.feature_store import FeatureStore
from dhpf.annotate.photos import Place, Reference
from dhpf.annotate.transfer import AGREEMENT, Annotator, describe, fuse, region_around, see
from tests.conftest import texture

KIND = Category("kind", ("a", "b", "c"))
POINTS = np.array([[12.0, 10, 2], [40, 22, 1], [28, 30, 2]])


def votes(*points: tuple[float, float]) -> np.ndarray:
    """(R, 1, 2): votes on one keypoint."""
    return np.array(points, np.float64)[:, None]


def test_one_vote_is_taken_as_it_is() -> None:
    location, score, _ = fuse(votes((3, 4)), np.array([[0.7]]), 10)
    np.testing.assert_allclose(location, [[3, 4]])
    np.testing.assert_allclose(score, [0.7])


def test_two_that_disagree_are_decided_by_confidence_and_halve_the_score() -> None:
    location, score, _ = fuse(votes((0, 0), (500, 0)), np.array([[0.4], [0.6]]), 10)
    np.testing.assert_allclose(location, [[500, 0]])
    np.testing.assert_allclose(score, [0.3])


def test_a_majority_outweighs_a_surer_outlier() -> None:
    location, score, weights = fuse(votes((0, 0), (0, 0), (500, 0)), np.array([[0.4], [0.4], [0.6]]), 10)
    np.testing.assert_allclose(location, [[0, 0]])
    np.testing.assert_allclose(score, [0.8 / 3])
    np.testing.assert_allclose(weights[:, 0], [0.4, 0.4, 0])


def test_votes_that_agree_are_averaged_by_confidence() -> None:
    """At a distance of one sigma, the second counts exp(-1/2) of its confidence."""
    sigma = AGREEMENT * 100
    location, _, _ = fuse(votes((0, 0), (sigma, 0)), np.array([[0.8], [0.2]]), 100)
    share = 0.2 * np.exp(-0.5)
    np.testing.assert_allclose(location, [[sigma * share / (0.8 + share), 0]])


def test_no_vote_is_no_location() -> None:
    points = np.array([[[5.0, 5.0], [1, 1]], [[7, 7], [2, 2]]])
    location, score, _ = fuse(points, np.array([[0.0, 0.5], [0.3, 0.0]]), 100)
    np.testing.assert_allclose(location, [[7, 7], [1, 1]])
    np.testing.assert_allclose(score, [0.3, 0.5])  # of those that voted
    assert fuse(points, np.zeros((2, 2)), 100)[1].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("box", "region"),
    [
        ([19.5, 9.5, 39.5, 29.5], (18, 8, 42, 32)),  # pixels 20 to 39 and a tenth of 20 around
        ([-0.5, -0.5, 59.5, 39.5], (0, 0, 60, 40)),
        ([57, 37, 58, 38], (52, 32, 60, 40)),  # never fewer than 8 x 8
        ([900, 900, 950, 950], (52, 32, 60, 40)),  # beyond the photo: its corner
    ],
)
def test_regions(box: list[float], region: tuple[int, ...]) -> None:
    assert region_around(np.array(box), (60, 40)) == region


@pytest.fixture
def reference(tmp_path: Path) -> Reference:
    """A photo with an object that nearly fills it."""
    path = tmp_path / "reference.png"
    Image.fromarray(texture(60, 40, seed=3)).save(path)
    polygon = np.array([[10.0, 8], [44, 8], [44, 34], [10, 34]])
    box = np.array([4.5, 4.5, 54.5, 36.5])
    return Reference(path, (60, 40), LabelledObject(KIND, POINTS, box, (polygon,)))


def test_a_copy_gets_the_same_labels(tmp_path: Path, quick: Matcher, reference: Reference) -> None:
    copy = tmp_path / "copy.png"
    copy.write_bytes(reference.path.read_bytes())
    found = Annotator(quick, [reference]).label(copy, (60, 40))
    assert found.category == KIND
    np.testing.assert_allclose(found.keypoints[:, :2], POINTS[:, :2], atol=1.5)
    np.testing.assert_array_equal(found.keypoints[:, 2], POINTS[:, 2])  # what is hidden stays hidden
    np.testing.assert_allclose(found.polygons[0], reference.object.polygons[0], atol=2)
    assert found.box is not None
    np.testing.assert_allclose(found.box, [10, 8, 44, 34], atol=2)  # that of the polygon
    assert found.scores is not None and (found.scores > 0.2).all()


def test_inside_a_box_the_rest_of_the_photo_does_not_matter(
    tmp_path: Path, quick: Matcher, reference: Reference
) -> None:
    """The reference's photo pasted elsewhere into another one."""
    scene = Image.fromarray(texture(200, 150, seed=8))
    scene.paste(Image.open(reference.path), (97, 53))
    scene.save(tmp_path / "scene.png")
    box = np.array([4.5 + 97, 4.5 + 53, 54.5 + 97, 36.5 + 53])
    place = Place("kind", box)
    found = Annotator(quick, [reference]).label(tmp_path / "scene.png", (200, 150), place)
    np.testing.assert_allclose(found.keypoints[:, :2], POINTS[:, :2] + [97, 53], atol=1.5)
    assert found.box is not None
    np.testing.assert_array_equal(found.box, box)
    with pytest.raises(InputError, match="no reference shows a dog"):
        Annotator(quick, [reference]).label(tmp_path / "scene.png", (200, 150), Place("dog", box))


def test_a_box_without_polygon_moves_with_its_points(
    tmp_path: Path, quick: Matcher, reference: Reference
) -> None:
    box = np.array([4.5, 4.5, 54.5, 36.5])
    for keypoints in (POINTS, POINTS * 0):  # with keypoints; with nothing but the box
        one = Reference(reference.path, (60, 40), LabelledObject(KIND, keypoints, box))
        found = Annotator(quick, [one]).label(reference.path, (60, 40))
        assert found.box is not None
        np.testing.assert_allclose(found.box, box, atol=4)
        np.testing.assert_array_equal(found.shown, keypoints[:, 2] > 0)


def test_the_most_similar_references_vote(tmp_path: Path, quick: Matcher, reference: Reference) -> None:
    """Of three photos, one is a copy of the target: with one vote, its labels count alone."""
    others = []
    for seed in (20, 21):
        path = tmp_path / f"{seed}.png"
        Image.fromarray(texture(60, 40, seed=seed)).save(path)
        others.append(Reference(path, (60, 40), LabelledObject(KIND, POINTS[:, :] * [0.5, 0.5, 1])))
    annotator = Annotator(quick, [others[0], reference, others[1]], votes=1)
    found = annotator.label(reference.path, (60, 40))
    np.testing.assert_allclose(found.keypoints[:, :2], POINTS[:, :2], atol=1.5)
    with pytest.raises(InputError, match="0 references were asked for"):
        Annotator(quick, others, votes=0)


def test_descriptors_have_unit_length(quick: Matcher, reference: Reference) -> None:
    from dhpf.annotate.transfer import View

    one = describe(see(quick, View(reference.path)))
    assert np.linalg.norm(one) == pytest.approx(1)


def test_features_on_the_disc_are_computed_once(
    tmp_path: Path, quick: Matcher, reference: Reference, one_thread: None
) -> None:
    """And what is found there gives the same labels as what was computed; a damaged file is not used."""
    found = []
    computed = []
    for _ in range(3):
        store = FeatureStore(quick, tmp_path / "features")
        found.append(Annotator(quick, [reference], features=store.get).label(reference.path, (60, 40)))
        computed.append(store.computed)
        if len(found) == 2:
            [file] = (tmp_path / "features").iterdir()
            content = bytearray(file.read_bytes())
            content[-5] ^= 1
            file.write_bytes(content)
    assert computed == [1, 0, 1]
    for other in found[1:]:
        np.testing.assert_array_equal(other.keypoints, found[0].keypoints)
        np.testing.assert_array_equal(other.scores, found[0].scores)
