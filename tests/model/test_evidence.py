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
from dhpf.data import make_mini, open_dataset
from dhpf.evaluate.predict import predict
from dhpf.model.backbone import ResNet
from dhpf.model.evidence import Evidence
from dhpf.model.hough import hough_space
from dhpf.model.matching import match_cells
from dhpf.model.network import DHPF
from tests import literal
from tests.model.test_matching import factored, grid, pairs


@settings(deadline=None, max_examples=40)
@given(pairs(), st.integers(0, 2**31), st.sampled_from([torch.float32, torch.float64]))
def test_scores_are_rows_of_the_literal_matrix(pair: Any, seed: int, dtype: torch.dtype) -> None:
    a, b, size_a, size_b = pair
    expected = literal.match(a, b, grid(size_a), grid(size_b), size_a, size_b)
    correlation = factored(a, b, size_a, size_b, dtype)
    found = match_cells(correlation, hough_space(size_a, size_b, dtype, torch.device("cpu")))
    evidence = Evidence(correlation, found.votes, found.column_maxima)
    height, width = grid(size_a)
    random = np.random.default_rng(seed)
    row, column = int(random.integers(height)), int(random.integers(width))
    rows = slice(row, min(row + int(random.integers(1, 4)), height))
    columns = slice(column, min(column + int(random.integers(1, 4)), width))
    matrix = expected.filtered.view(height, width, -1) / max(float(expected.votes.max()), 1e-30)
    scores = evidence.scores(rows, columns)
    assert scores.shape == grid(size_b)
    loose = dtype == torch.float32
    assert_close(
        scores.flatten().double(),
        matrix[rows, columns].mean((0, 1)),
        rtol=1e-3 if loose else 1e-9,
        atol=float(matrix.max()) * (1e-5 if loose else 1e-12),
    )
    assert float(scores.min()) >= 0 and float(scores.max()) <= 1
    # Of one cell, the best score is that cell's confidence.
    one = evidence.scores(slice(row, row + 1), slice(column, column + 1))
    cell = row * width + column
    scale = float(found.confidence.max())
    assert float(one.max()) == pytest.approx(float(found.confidence[cell]), rel=1e-3, abs=scale * 1e-5)


@pytest.fixture(scope="module")
def cheetahs(matcher: Matcher) -> Match:
    return matcher.match(dhpf.sample("cheetah"), dhpf.sample("cheetah_cub"))


def test_a_point_that_one_cell_covers_scores_as_that_cell(cheetahs: Match) -> None:
    # The last cell lies at 236 of 240 pixels: the box of side 10 of no other cell reaches the corner at 240.
    scores = cheetahs.scores(cheetahs.source.size)
    assert scores.shape == (60, 60)
    assert scores.dtype == np.float32
    assert scores.argmax() == cheetahs.best[-1]
    assert scores.max() == pytest.approx(cheetahs.cell_confidence[-1], rel=1e-4)


def test_the_point_of_an_eye_scores_best_at_the_eye(cheetahs: Match) -> None:
    row, column = np.unravel_index(cheetahs.scores([88, 92]).argmax(), (60, 60))
    width, height = cheetahs.target.size
    place = [4 * column * width / 240, 4 * row * height / 240]
    assert np.linalg.norm(np.subtract(place, [164, 196])) < 25


def test_scores_average_the_cells_that_transfer_uses(cheetahs: Match) -> None:
    # (88, 92) of 236 x 236 pixels, or so, is (x, y) of the input; the boxes of cells reach 5 pixels far.
    x, y = np.array([88, 92]) * 240 / np.array(cheetahs.source.size)
    near = [(r, c) for r in range(60) for c in range(60) if abs(4 * c - x) <= 5 and abs(4 * r - y) <= 5]
    assert cheetahs.evidence is not None
    single = [cheetahs.evidence.scores(slice(r, r + 1), slice(c, c + 1)).numpy() for r, c in near]
    np.testing.assert_allclose(cheetahs.scores([88, 92]), np.mean(single, axis=0), rtol=1e-4, atol=1e-9)


def test_evidence_is_far_smaller_than_the_matrix(cheetahs: Match) -> None:
    matrix = 3600 * 3600 * 4
    assert cheetahs.evidence is not None
    assert cheetahs.evidence.nbytes < matrix / 3  # static hyperpixels: the features themselves
    torch.manual_seed(0)
    gated = Matcher(DHPF(ResNet(50)).folded(), "gated", size=240)
    network = gated.network
    a = network.features(torch.zeros(1, 3, 240, 240))
    found = network.match(a, a, keep_evidence=True)
    assert found.evidence[0].nbytes < 8 * 2**20
    assert network.match(a, a).evidence == ()


class Watching(Matcher):
    """A matcher that remembers, without keeping it, all evidence it gave out."""

    def __init__(self, matcher: Matcher) -> None:
        super().__init__(matcher.network, matcher.name, matcher.size)
        self.given: list[weakref.ref[Evidence]] = []
        self.most = 0

    def match(self, *photos: Any, **options: Any) -> Match:
        found = super().match(*photos, **options)
        if found.evidence is not None:
            self.given.append(weakref.ref(found.evidence))
        self.most = max(self.most, sum(reference() is not None for reference in self.given))
        return found


def test_predictions_keep_no_evidence(quick: Matcher, tmp_path: Path) -> None:
    make_mini("pf-pascal", tmp_path / "root")
    watching = Watching(quick)
    predict(watching, open_dataset("pf-pascal", tmp_path / "root", "test"), tmp_path / "p.npz", workers=2)
    assert watching.most <= 2  # one a worker
    assert not any(reference() for reference in watching.given)
