"""One pair: every other choice of layers is what a network with those layers would have matched."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from dhpf.model.network import DHPF, HPF, HeadKind

import dhpf
from dhpf.analysis.pair import Change, compare, study_pair
from dhpf.analysis.pair_report import write_pair
from dhpf.errors import InputError
from dhpf.matcher import Matcher

from ..conftest import texture

A, B = texture(80, 60, seed=1), texture(70, 90, seed=2)
POINTS = [[10.0, 20.0], [60.5, 44.0]]


def gated(quick: Matcher, kind: HeadKind | None = None) -> Matcher:
    """A head with arbitrary weights on the backbone of the default model."""
    torch.manual_seed(3)
    network = DHPF(quick.network.backbone, kind)
    return Matcher(network.eval().requires_grad_(False), "arbitrary", size=64)


@pytest.mark.usefixtures("one_thread")
def test_fixed_layers_against_networks_of_the_other_layers(quick: Matcher) -> None:
    backbone = quick.network.backbone
    before = Matcher(HPF(backbone, (2, 7, 11)), "fixed", size=64)
    study = study_pair(before, A, B, POINTS)
    plain = before.match(A, B)
    assert (study.match.best == plain.best).all() and study.match.layers == (2, 7, 11)
    assert study.match.layer_probability is None
    for layer, others in ((7, (2, 11)), (0, (0, 2, 7, 11)), (16, (2, 7, 11, 16))):
        after = Matcher(HPF(backbone, others), "other", size=64).match(A, B)
        effect = study.effects[layer]
        assert effect.what == ("left out" if layer == 7 else "forced in")
        moved = np.linalg.norm(after.transfer(POINTS) - plain.transfer(POINTS), axis=1)
        expected = (
            moved.mean(),
            np.mean(after.best != plain.best),
            np.mean(after.cell_confidence.astype(float)) - np.mean(plain.cell_confidence.astype(float)),
        )
        assert effect.change == pytest.approx(expected, abs=1e-6)
        assert effect.change is not None and effect.change.changed > 0
    assert [effect.on for effect in study.effects] == [layer in (2, 7, 11) for layer in range(17)]
    assert [effect.channels for effect in study.effects][:5] == [64, 256, 256, 256, 512]


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    "kind", [None, HeadKind(gating="sigmoid"), HeadKind(hough=False), HeadKind(motion=True)]
)
def test_gates_choose_as_when_matching(quick: Matcher, kind: HeadKind | None) -> None:
    matcher = gated(quick, kind)
    study, plain = study_pair(matcher, A, B, POINTS), matcher.match(A, B)
    assert study.match.layers == plain.layers and (study.match.best == plain.best).all()
    assert plain.layer_probability is not None
    assert [effect.probability for effect in study.effects] == plain.layer_probability.tolist()
    np.testing.assert_array_equal(study.match.transfer(POINTS), plain.transfer(POINTS))


def test_a_soft_gate_that_is_forced_in_is_fully_open(quick: Matcher, monkeypatch: pytest.MonkeyPatch) -> None:
    matcher = gated(quick, HeadKind(gating="sigmoid"))
    for perceptron in matcher.network.gates.perceptrons:  # type: ignore[union-attr]
        perceptron[-1].weight.zero_()  # type: ignore[index, union-attr, operator]
    monkeypatch.setattr(matcher.network, "choose", lambda a, b: ([(4, 9)], torch.full((1, 17), 0.25)))
    effects = study_pair(matcher, A, B, POINTS).effects
    a, b = matcher.features(A).features, matcher.features(B).features
    weights = torch.full((17,), 0.25)
    weights[12] = 1.0
    from dhpf.model.matching import match_cells

    def best(layers: tuple[int, ...]) -> torch.Tensor:
        correlation = matcher.network.correlation(layers, a, b, weights)
        return match_cells(correlation, matcher.network.space(a.size, b.size)).best

    changed = (best((4, 9, 12)) != best((4, 9))).float().mean().item()
    assert effects[12].change is not None and effects[12].change.changed == pytest.approx(changed)


def test_the_only_layer_cannot_be_left_out(quick: Matcher, tmp_path: Path) -> None:
    study = study_pair(Matcher(HPF(quick.network.backbone, (5,)), "one", size=64), A, B)
    assert study.effects[5].change is None and study.effects[6].change is not None
    assert len(study.points) == 12  # nobody said which, so the match's own
    write_pair(study, tmp_path)
    stored = json.loads((tmp_path / "pair.json").read_text())
    assert (stored["layers"], stored["effects"][5]["displacement"]) == ([5], None)
    rows = list(csv.DictReader((tmp_path / "pair.csv").read_text().splitlines()))
    assert (rows[5]["state"], rows[5]["points move (px)"], rows[5]["gate"]) == ("on", "", "")
    assert rows[6]["tried"] == "forced in"


def test_change_by_hand(quick: Matcher) -> None:
    """Every cell moves one cell to the right: 4 pixels of the 64-pixel input, on a target 128 pixels wide."""
    before = quick.match(texture(64, 64), texture(128, 64))
    rows, columns = before.grids[1]
    still = replace(before, best=np.arange(rows * columns), cell_confidence=np.full(rows * columns, 0.25))
    best = still.best.copy().reshape(rows, columns)
    best[:, :-1] += 1
    moved = replace(still, best=best.reshape(-1), cell_confidence=np.full(rows * columns, 0.5))
    inside = np.array([[20.0, 20.0], [31.0, 40.0]])
    assert compare(still, moved, inside) == pytest.approx((8.0, 1 - 1 / columns, 0.25))
    assert compare(still, still, inside) == Change(0, 0, 0)


def test_points_must_be_there(quick: Matcher) -> None:
    with pytest.raises(InputError, match="no points to follow"):
        study_pair(quick, A, B, np.empty((0, 2)))
    with pytest.raises(dhpf.InputError, match="lies outside the source photo of 80 x 60"):
        study_pair(quick, A, B, [[81, 5]])
