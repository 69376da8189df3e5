"""One pair: every other choice of layers is what a network with those layers would have matched."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

import dhpf
from dhpf.analysis.pair import Change, LayerEffect, PairStudy, compare, study_pair
from dhpf.analysis.pair_report import draw_pair, print_pair, write_pair
from dhpf.errors import InputError
from dhpf.matcher import Matcher
from dhpf.model.network import DHPF, HPF, HeadKind

from ..conftest import texture
from ..viz.scenes import HandMade, as_match, blank

A, B = texture(80, 60, seed=1), texture(70, 90, seed=2)
POINTS = [[10.0, 20.0], [60.5, 44.0]]


def gated(quick: Matcher, kind: HeadKind | None = None) -> Matcher:
    """A head with arbitrary weights on the backbone of the default model."""
    torch.manual_seed(3)
    network = DHPF(quick.network.backbone, kind)
    return Matcher(network.eval().requires_grad_(False), "arbitrary", size=64)


def literal_change(after: dhpf.Match, before: dhpf.Match) -> list[float]:
    """Distances and confidences at the points and at 64 x 64 pixels from corner to corner."""
    width, height = before.source.size
    pixels = [(x, y) for y in np.linspace(0, height - 1, 64) for x in np.linspace(0, width - 1, 64)]
    distances = [
        np.mean([np.hypot(*move) for move in after.transfer(where) - before.transfer(where)])
        for where in (POINTS, pixels)
    ]
    sure = np.mean(after.confidence_at(pixels)) - np.mean(before.confidence_at(pixels))
    return [*map(float, distances), float(sure)]


@pytest.mark.usefixtures("one_thread")
def test_fixed_layers_against_networks_of_the_other_layers(quick: Matcher) -> None:
    backbone = quick.network.backbone
    before = Matcher(HPF(backbone, (2, 7, 11)), "fixed", size=64)
    study = study_pair(before, A, B, POINTS)
    plain = before.match(A, B)
    assert study.match.layers == (2, 7, 11) and study.match.layer_probability is None
    np.testing.assert_array_equal(study.match.transfer(POINTS), plain.transfer(POINTS))
    for layer, others in ((7, (2, 11)), (0, (0, 2, 7, 11)), (16, (2, 7, 11, 16))):
        after = Matcher(HPF(backbone, others), "other", size=64).match(A, B)
        effect = study.effects[layer]
        assert effect.tried == ("left out" if layer == 7 else "forced in")
        assert effect.change == pytest.approx(literal_change(after, plain), abs=1e-6)
        assert effect.change is not None and effect.change.pixels > 0
    assert [effect.on for effect in study.effects] == [layer in (2, 7, 11) for layer in range(17)]


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    "kind", [None, HeadKind(gating="sigmoid"), HeadKind(hough=False), HeadKind(motion=True)]
)
def test_gates_choose_as_when_matching(quick: Matcher, kind: HeadKind | None) -> None:
    matcher = gated(quick, kind)
    study, plain = study_pair(matcher, A, B, POINTS), matcher.match(A, B)
    assert study.match.layers == plain.layers
    assert plain.layer_probability is not None
    assert [effect.probability for effect in study.effects] == plain.layer_probability.tolist()
    np.testing.assert_array_equal(study.match.transfer(POINTS), plain.transfer(POINTS))


@pytest.mark.usefixtures("one_thread")
def test_a_soft_gate_that_is_forced_in_is_fully_open(quick: Matcher, monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers 4 and 9 are a quarter open: with 12 forced in, as if the gates had said 1/4, 1/4 and 1."""
    matcher = gated(quick, HeadKind(gating="sigmoid"))
    probability = torch.full((1, 17), 0.25)
    monkeypatch.setattr(matcher.network, "choose", lambda a, b: ([(4, 9)], probability))
    before = matcher.match(A, B)
    effects = study_pair(matcher, A, B, POINTS).effects
    open_gate = probability.clone()
    open_gate[0, 12] = 1.0
    monkeypatch.setattr(matcher.network, "choose", lambda a, b: ([(4, 9, 12)], open_gate))
    assert effects[12].change == pytest.approx(literal_change(matcher.match(A, B), before), abs=1e-6)


def test_the_only_layer_cannot_be_left_out(quick: Matcher, tmp_path: Path) -> None:
    study = study_pair(Matcher(HPF(quick.network.backbone, (5,)), "one", size=64), A, B)
    assert study.effects[5].change is None and study.effects[6].change is not None
    assert len(study.points) == 12  # nobody said which, so the match's own
    assert [path.name for path in write_pair(study, tmp_path)] == ["pair.png", "pair.svg", "pair.csv"]
    rows = list(csv.DictReader((tmp_path / "pair.csv").read_text().splitlines()))
    assert (rows[5]["state"], rows[5]["points move (px)"], rows[5]["gate"]) == ("on", "", "")
    assert rows[6]["tried"] == "forced in"


def test_change_by_hand() -> None:
    """Everything moves 3 pixels to the right and 4 down: 5 pixels; confidence rises from 1/2 to 3/4."""
    still = as_match(HandMade(blank(64, 48), blank(64, 48)))
    moved = as_match(
        HandMade(blank(64, 48), blank(64, 48), shift=(3, 4), confident=lambda x, y: np.full(len(x), 0.75))
    )
    inside = np.array([[20.0, 20.0], [31.0, 40.0]])
    assert compare(still, moved, inside) == Change(5, 5, 0.25)
    assert compare(still, still, inside) == Change(0, 0, 0)


@pytest.mark.parametrize("count", [1, 12, 34])
@pytest.mark.parametrize("probability", [None, 0.5])
def test_any_number_of_layers_is_drawn_and_printed(count: int, probability: float | None) -> None:
    effects = (LayerEffect(layer, layer == 0, probability, Change(1, 2, -0.5)) for layer in range(count))
    match = HandMade(blank(64, 48), blank(64, 48), model="a [bold] name", layers=(0,))
    study = PairStudy(as_match(match), np.array(POINTS), tuple(effects))
    assert len(draw_pair(study).rows) == count
    console = Console(record=True, width=120, file=io.StringIO())
    print_pair(study, console)
    text = console.export_text()
    assert text.startswith("a [bold] name: layers 0\n") and text.count(" off ") == count - 1


def test_a_model_that_chooses_no_layers_is_named(quick: Matcher, monkeypatch: pytest.MonkeyPatch) -> None:
    match = as_match(HandMade(blank(80, 60), blank(70, 90), layers=None))
    monkeypatch.setattr(Matcher, "match", lambda *given, **how: match)
    with pytest.raises(InputError, match="hpf-resnet50 chooses no layers; there is none to leave out"):
        study_pair(quick, A, B)


def test_points_must_be_there(quick: Matcher) -> None:
    with pytest.raises(InputError, match="no points to follow"):
        study_pair(quick, A, B, np.empty((0, 2)))
    with pytest.raises(dhpf.InputError, match="lies outside the source photo of 80 x 60"):
        study_pair(quick, A, B, [[81, 5]])
