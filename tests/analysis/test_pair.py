"""One pair: every other choice of layers is what a network with those layers would have matched."""

from __future__ import annotations

import csv
import io
from copy import copy
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
from dhpf.methods.dhpf import DHPF, DHPFConfig
from dhpf.methods.hpf import HPF, HPFConfig
from dhpf.methods.nearest import Nearest
from dhpf.model.gating import LayerDecisions
from dhpf.zoo import Calibration

from ..conftest import texture
from ..viz.scenes import HandMade, as_match, blank

A, B = texture(80, 60, seed=1), texture(70, 90, seed=2)
POINTS = [[10.0, 20.0], [60.5, 44.0]]


def gated(quick: Matcher, config: DHPFConfig | None = None) -> Matcher:
    """A head with arbitrary weights on the backbone of the default model."""
    torch.manual_seed(3)
    method = DHPF(quick.method.backbone, config)
    return Matcher(method.for_inference(), "arbitrary", size=64)


def fixed(quick: Matcher, *layers: int) -> Matcher:
    return Matcher(HPF(quick.method.backbone, HPFConfig(layers=layers)), "fixed", size=64)


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
    before = fixed(quick, 2, 7, 11)
    study = study_pair(before, A, B, POINTS)
    plain = before.match(A, B)
    assert study.match.layers == (2, 7, 11) and study.match.layer_probability is None
    np.testing.assert_array_equal(study.match.transfer(POINTS), plain.transfer(POINTS))
    for layer, others in ((7, (2, 11)), (0, (0, 2, 7, 11)), (16, (2, 7, 11, 16))):
        after = fixed(quick, *others).match(A, B)
        effect = study.effects[layer]
        assert effect.tried == ("left out" if layer == 7 else "forced in")
        assert effect.change == pytest.approx(literal_change(after, plain), abs=1e-6)
        assert effect.change is not None and effect.change.pixels > 0
    assert [effect.on for effect in study.effects] == [layer in (2, 7, 11) for layer in range(17)]


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    "config", [None, DHPFConfig(gating="sigmoid"), DHPFConfig(hough="none"), DHPFConfig(revote=True)]
)
def test_gates_choose_as_when_matching(quick: Matcher, config: DHPFConfig | None) -> None:
    matcher = gated(quick, config)
    study, plain = study_pair(matcher, A, B, POINTS), matcher.match(A, B)
    assert study.match.layers == plain.layers
    assert plain.layer_probability is not None
    assert [effect.probability for effect in study.effects] == plain.layer_probability.tolist()
    np.testing.assert_array_equal(study.match.transfer(POINTS), plain.transfer(POINTS))


def decided(matcher: Matcher, monkeypatch: pytest.MonkeyPatch, on: dict[int, float]) -> dhpf.Match:
    """The match if the gates of these layers were so far open, and all others closed."""
    gates = torch.zeros(1, 17)
    gates[0, list(on)] = torch.tensor(list(on.values()))
    monkeypatch.setitem(matcher.method.__dict__, "gates", lambda pooled: LayerDecisions(gates, gates))
    return matcher.match(A, B)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(("gating", "gate"), [("gumbel", 1.0), ("sigmoid", 0.25)])
def test_one_gate_is_forced_and_the_others_stay(
    quick: Matcher, monkeypatch: pytest.MonkeyPatch, gating: str, gate: float
) -> None:
    """Layers 4 and 9 are on, of soft gates a quarter open; one that is forced in is fully open."""
    matcher = gated(quick, DHPFConfig(gating=gating))
    before = decided(matcher, monkeypatch, {4: gate, 9: gate})
    assert before.layers == (4, 9)
    effects = study_pair(matcher, A, B, POINTS).effects
    forced = decided(matcher, monkeypatch, {4: gate, 9: gate, 12: 1.0})
    assert effects[12].change == pytest.approx(literal_change(forced, before), abs=1e-6)
    left = decided(matcher, monkeypatch, {4: gate})
    assert effects[9].change == pytest.approx(literal_change(left, before), abs=1e-6)


@pytest.mark.usefixtures("one_thread")
def test_confidences_are_compared_as_the_matcher_tells_them(quick: Matcher) -> None:
    """Half of what the network says: so is the change."""
    half = Calibration(confidence=(0.0, 1.0), right=(0.0, 0.5))
    raw = fixed(quick, 2, 7)
    told = Matcher(raw.method, raw.name, raw.size, calibration=half)
    for before, after in zip(*(study_pair(one, A, B, POINTS).effects for one in (raw, told)), strict=True):
        assert before.change is not None and after.change is not None
        assert after.change == pytest.approx((*before.change[:2], before.change.confidence / 2))


@pytest.mark.usefixtures("one_thread")
def test_the_blocks_of_a_vision_transformer() -> None:
    """The bundled DINOv2: a gate for each of its 12 blocks, as when matching; left out is closed."""
    matcher = dhpf.load("dinov2-small", 112)
    study, plain = study_pair(matcher, A, B, POINTS), matcher.match(A, B)
    assert [effect.layer for effect in study.effects] == list(range(12))
    assert plain.layers is not None and plain.layer_probability is not None
    assert [effect.probability for effect in study.effects] == plain.layer_probability.tolist()
    assert tuple(effect.layer for effect in study.effects if effect.on) == plain.layers
    assert all(effect.on == (effect.probability > 0.5) for effect in study.effects)
    left_out = plain.layers[-1]
    method = copy(matcher.method)
    closed = torch.tensor([[float(n in plain.layers[:-1]) for n in range(12)]])
    method.__dict__["gates"] = lambda pooled: LayerDecisions(closed, closed)
    without = Matcher(method, "without", 112, calibration=matcher.calibration).match(A, B)
    change = study.effects[left_out].change
    assert change == pytest.approx(literal_change(without, plain), abs=1e-4)


def test_the_only_layer_cannot_be_left_out(quick: Matcher, tmp_path: Path) -> None:
    study = study_pair(fixed(quick, 5), A, B)
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
    assert "a [bold] name: layers 0; 2 points are followed\n" in text and text.count(" off ") == count - 1


def test_a_model_that_chooses_no_layers_is_named(quick: Matcher) -> None:
    nearest = Matcher(Nearest(quick.method.backbone), "nearest-resnet50", size=64)
    with pytest.raises(InputError, match="nearest-resnet50 chooses no layers; there is none to leave out"):
        study_pair(nearest, A, B)


def test_points_must_be_there(quick: Matcher) -> None:
    with pytest.raises(InputError, match="no points to follow"):
        study_pair(quick, A, B, np.empty((0, 2)))
    with pytest.raises(dhpf.InputError, match="lies outside the source photo of 80 x 60"):
        study_pair(quick, A, B, [[81, 5]])
