"""Scores of single points: equal to the literal method's matrix, and kept only as long as their match."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch.testing import assert_close

import dhpf
from dhpf import Match, Matcher
from dhpf.backbones.resnet import ResNet
from dhpf.data import make_mini, open_dataset
from dhpf.evaluate.predict import predict
from dhpf.grid import Grid, resize_points
from dhpf.methods.dhpf import DHPF
from dhpf.model.correlation import correlate
from dhpf.model.matching import Voting, match_cells
from dhpf.model.scores import MatchScores
from tests import literal
from tests.model.test_matching import Pair, cast, pairs


@settings(deadline=None, max_examples=40)
@given(pairs(), st.integers(0, 2**31), st.sampled_from([torch.float32, torch.float64]))
def test_scores_are_rows_of_the_literal_matrix(pair: Pair, seed: int, dtype: torch.dtype) -> None:
    expected = literal.match(*pair)
    correlation = cast(pair, dtype)
    found = match_cells(correlation, Voting())
    scores = MatchScores(correlation, found.votes, found.column_maxima)
    cells = torch.from_numpy(np.random.default_rng(seed).integers(pair[2].cells, size=3)).unique()
    matrix = expected.filtered / max(float(expected.votes.max()), 1e-30)
    of_cells = scores.of_cells(cells)
    assert of_cells.shape == pair[3].shape
    loose = dtype == torch.float32
    assert_close(
        of_cells.flatten().double(),
        matrix[cells].mean(0),
        rtol=1e-3 if loose else 1e-9,
        atol=float(matrix.max()) * (1e-5 if loose else 1e-12),
    )
    assert float(of_cells.min()) >= 0 and float(of_cells.max()) <= 1
    # Of one cell, the best score is that cell's confidence.
    one, scale = scores.of_cells(cells[:1]), float(found.confidence.max())
    assert float(one.max()) == pytest.approx(float(found.confidence[cells[0]]), rel=1e-3, abs=scale * 1e-5)


@pytest.fixture(scope="module")
def cheetahs(matcher: Matcher) -> Match:
    return matcher.match(dhpf.sample("cheetah"), dhpf.sample("cheetah_cub"))


def test_a_point_that_one_cell_covers_scores_as_that_cell(cheetahs: Match, matcher: Matcher) -> None:
    # The last cell lies at 236 of 240 pixels: no other cell is within 5 pixels of the corner at 239.5.
    corner = np.array(cheetahs.source.size) - 0.5
    scores = cheetahs.scores(corner)
    assert scores.shape == (60, 60)
    assert scores.dtype == np.float32
    best = cheetahs.target_grid.centres().reshape(-1, 2)[scores.argmax()]
    np.testing.assert_allclose(best - 236, cheetahs.cells.displacement[-1, -1])
    meaning = matcher.calibration
    assert meaning is not None
    meant = np.interp(scores.max(), meaning.confidence, meaning.right)
    assert cheetahs.cells.confidence[-1, -1] == pytest.approx(meant, rel=1e-4)


def test_the_point_of_an_eye_scores_best_at_the_eye(cheetahs: Match) -> None:
    best = cheetahs.target_grid.centres().reshape(-1, 2)[cheetahs.scores([88, 92]).argmax()]
    location = resize_points(best, (240, 240), cheetahs.target.size)
    assert np.linalg.norm(location - [164, 196]) < 25


def test_scores_average_the_cells_that_transfer_uses(cheetahs: Match) -> None:
    # The boxes of cells reach 5 pixels of the input far.
    x, y = resize_points([88, 92], cheetahs.source.size, (240, 240))
    near = [60 * r + c for r in range(60) for c in range(60) if abs(4 * c - x) <= 5 and abs(4 * r - y) <= 5]
    assert cheetahs.match_scores is not None
    single = [cheetahs.match_scores.of_cells(torch.tensor([cell])).numpy() for cell in near]
    np.testing.assert_allclose(cheetahs.scores([88, 92]), np.mean(single, axis=0), rtol=1e-4, atol=1e-9)


def test_scores_are_far_smaller_than_the_matrix(cheetahs: Match) -> None:
    matrix = 3600 * 3600 * 4
    assert cheetahs.match_scores is not None
    assert cheetahs.match_scores.nbytes < matrix / 3  # static hyperpixels: the features themselves
    torch.manual_seed(0)
    method = DHPF(ResNet(50)).for_inference()
    image = torch.zeros(3, 240, 240)
    a = method.features(image)
    scores = method.match(a, a).scores
    assert scores is not None and scores.nbytes < 8 * 2**20
    gated = Matcher(method, "gated", size=240)
    photo = np.zeros((50, 50, 3), np.uint8)
    assert gated.match(photo, photo, scores=False).match_scores is None


def test_rounding_never_lifts_a_confidence_above_one() -> None:
    """An image against itself: every match is perfect, and the highest vote is the divisor."""
    generator = torch.Generator().manual_seed(0)
    grid = Grid(12, 14, 4.0)
    for seed in range(20):
        a = 100 * torch.randn(12, 14, 64, generator=generator.manual_seed(seed))
        for epsilon in (0.0, 1e-3):
            found = match_cells(correlate([a], [a], grid, grid, epsilon), Voting("none"))
            assert float(found.confidence.max()) <= 1


class Watching(Matcher):
    """A matcher that remembers, without keeping it, all scores it gave out."""

    def __init__(self, matcher: Matcher) -> None:
        super().__init__(matcher.method, matcher.name, matcher.size)
        self.given: list[weakref.ref[MatchScores]] = []
        self.most = 0

    def match(self, *photos: Any, **options: Any) -> Match:
        found = super().match(*photos, **options)
        if found.match_scores is not None:
            self.given.append(weakref.ref(found.match_scores))
        self.most = max(self.most, sum(reference() is not None for reference in self.given))
        return found


def test_predictions_keep_no_scores(quick: Matcher, tmp_path: Path) -> None:
    make_mini("pf-pascal", tmp_path / "root")
    watching = Watching(quick)
    predict(watching, open_dataset("pf-pascal", tmp_path / "root", "test"), tmp_path / "p.npz", workers=2)
    assert watching.most <= 2  # one a worker
    assert not any(reference() for reference in watching.given)
