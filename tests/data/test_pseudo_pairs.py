"""Procrustes pseudo-pairs: pairs that a data set does not list, of keypoints with one shape."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dhpf.data.pairs import Annotation, Entry, Floats, Labels, PairDataset
from dhpf.data.pseudo_pairs import PseudoPairs, common_keypoints, procrustes_distances

SQUARE = np.array([[0.0, 0.0], [10.0, 0.0], [10.0, 10.0], [0.0, 10.0]])


def moved(points: Floats, degrees: float = 0.0, scale: float = 1.0, shift: float = 0.0) -> Floats:
    cos, sin = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return scale * points @ np.array([[cos, sin], [-sin, cos]]) + shift


def distance(a: Floats, b: Floats) -> float:
    return float(procrustes_distances(a, b))


def literal_distance(a: Floats, b: Floats) -> float:
    """Least squares for the four numbers of a similarity map, x' = p x - q y + s, y' = q x + p y + t."""
    one, none = np.ones(len(a)), np.zeros(len(a))
    rows_x = np.stack([a[:, 0], -a[:, 1], one, none], axis=1)
    rows_y = np.stack([a[:, 1], a[:, 0], none, one], axis=1)
    matrix, wanted = np.concatenate([rows_x, rows_y]), np.concatenate([b[:, 0], b[:, 1]])
    found = matrix @ np.linalg.lstsq(matrix, wanted, rcond=None)[0]
    centred = b - b.mean(axis=0)
    return float(np.sqrt(((found - wanted) ** 2).sum() / (centred**2).sum()))


class Listed(PairDataset):
    """Pairs by photos' names, with the points of each photo."""

    name, root, split = "drawn", Path("photos"), "val"

    def __init__(self, pairs: list[tuple[str, str, str]], points: dict[str, Floats]) -> None:
        self.points = points
        self.entries = tuple(
            Entry(f"{a}-{b}", category, Path(f"{a}.jpg"), Path(f"{b}.jpg")) for category, a, b in pairs
        )

    def annotation(self, index: int) -> Annotation:
        entry = self.entries[index]
        return Annotation(*(Labels(self.points[path.stem]) for path in (entry.source, entry.target)))


@pytest.mark.parametrize("degrees", [-29.0, 0.0, 10.0, 29.0])
def test_similar_shapes_do_not_differ(degrees):
    assert distance(SQUARE, moved(SQUARE, degrees, 3.0, -40.0)) < 1e-7


@pytest.mark.parametrize("other", [moved(SQUARE, 31.0), moved(SQUARE, -90.0), SQUARE * [-1, 1]])
def test_rotated_and_mirrored_shapes_have_nothing_in_common(other):
    assert distance(SQUARE, other) == pytest.approx(1.0)


def test_a_distance_by_hand():
    # A square against a rectangle twice as wide: 1 - (sum of products)^2 / both squared lengths = 1 - 9/10.
    assert distance(SQUARE, SQUARE * [2, 1]) == pytest.approx(np.sqrt(0.1))


@pytest.mark.parametrize("seed", range(8))
def test_distances_are_those_of_the_least_squares_map(seed):
    random = np.random.default_rng(seed)
    a = random.uniform(0, 100, (3, 7, 2))
    b = a[:2] * random.uniform(0.5, 2) + random.normal(0, 12, (2, 7, 2))
    expected = [[literal_distance(one, other) for other in b] for one in a]
    found = procrustes_distances(a[:, None], b)
    near = found < 1  # others are rotated too far
    assert near[0, 0] and near[1, 1]
    np.testing.assert_allclose(found[near], np.array(expected)[near], rtol=1e-9)


def test_points_in_one_place_have_no_shape():
    assert distance(SQUARE, np.full((4, 2), 5.0)) == 1.0


@pytest.mark.parametrize("seed", range(8))
def test_points_that_only_one_photo_shows_are_left_out(seed):
    random = np.random.default_rng(seed)
    parts = random.permutation(np.stack(np.meshgrid(*[np.arange(3.0)] * 2), axis=-1).reshape(-1, 2))
    a, b = np.delete(parts, [2, 7], axis=0), moved(np.delete(parts, 5, axis=0), 8.0, 40.0)
    common = common_keypoints(a, b + random.normal(0, 0.4, b.shape), 0.05)
    assert common is not None
    shown = np.delete(np.arange(9), [2, 7])[common[0]], np.delete(np.arange(9), 5)[common[1]]
    assert shown[0].tolist() == shown[1].tolist() == [0, 1, 3, 4, 6, 8]


def test_where_points_are_known_to_belong_together_the_same_are_left_out():
    """A point that has moved to another's place: by shape alone it would be taken for that one."""
    a = np.array([[0.0, 0], [10, 0], [20, 3], [20, 20], [10, 26], [0, 20]])
    b = a.copy()
    b[2], b[3] = a[3], (60.0, 60.0)
    by_shape, matched = common_keypoints(a, b, 0.05), common_keypoints(a, b, 0.6, matched=True)
    assert by_shape is not None and matched is not None
    assert (by_shape[0].tolist(), by_shape[1].tolist()) == ([0, 1, 3, 4, 5], [0, 1, 2, 4, 5])
    assert matched[0].tolist() == matched[1].tolist()
    assert common_keypoints(a, b, 0.05, matched=True) is None


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (SQUARE[:3], SQUARE[:3]),  # three points are too few
        (SQUARE, np.insert(SQUARE, 2, [[3.0, 3.0]], axis=0)),  # four are, if one is left out
        (np.arange(16.0).reshape(8, 2) ** 2, (np.arange(16.0).reshape(8, 2) ** 2)[:5]),  # three left out
        (np.zeros((0, 2)), np.zeros((0, 2))),
    ],
)
def test_what_chance_could_bring_together_is_not_paired(a, b):
    assert common_keypoints(a, b, 0.5) is None


def test_all_pairs_of_one_category_that_are_alike_each_once():
    points = {name: moved(SQUARE, turn, 5.0, turn) for turn, name in enumerate("abcdxy")}
    points["d"] = points["d"] * [-1, 1]  # seen from the other side
    listed = Listed([("bus", "a", "b"), ("bus", "c", "d"), ("bus", "b", "a"), ("cat", "x", "y")], points)
    found = PseudoPairs(listed, 0.1, {frozenset("bc")})
    assert [(entry.id, entry.category) for entry in found.entries] == [
        ("a-b", "bus"),
        ("x-y", "cat"),
        ("a-c", "bus"),
    ]
    source, target, _ = found.annotation(2)
    np.testing.assert_array_equal(source.points, points["a"])
    np.testing.assert_array_equal(target.points, points["c"])


def test_a_photo_brings_the_points_of_the_pair_that_has_most():
    random = np.random.default_rng(0)
    parts = random.uniform(0, 50, (8, 2))
    listed = Listed([("bus", "a", "b"), ("bus", "c", "d")], dict.fromkeys("abcd", parts))
    few = Annotation(Labels(parts[:5]), Labels(parts[:5]))
    listed.entries += (Entry("a-e", "bus", Path("a.jpg"), Path("e.jpg")),)
    whole = listed.annotation
    listed.annotation = lambda index: few if index == 2 else whole(index)
    found = PseudoPairs(listed, 0.1)
    counts = {entry.id: len(found.annotation(k).source.points) for k, entry in enumerate(found.entries)}
    assert counts["a-c"] == 8
    assert counts["a-e"] == 5
    assert "b-e" not in counts  # three of eight would be left out
