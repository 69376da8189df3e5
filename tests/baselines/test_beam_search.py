"""The search against trying everything, and its figures against the literal method."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import literal

from dhpf import InputError, Matcher
from dhpf.baselines.beam_search import Extension, Scored, beam_search
from dhpf.baselines.layer_search import LayerSearch, search_layers
from dhpf.baselines.pair_scores import cells_around
from dhpf.data import make_mini, open_dataset
from dhpf.data.pairs import Pair, PairDataset
from dhpf.evaluate.protocol import protocol_for
from dhpf.model.network import DHPF, HPF
from dhpf.model.transfer import Neighbourhoods

Layers = tuple[int, ...]

ALPHA = 0.03  # so small that hardly two sets score the same


def all_sets(layers: int, most: int) -> list[Layers]:
    sizes = range(1, most + 1)
    return [chosen for size in sizes for chosen in itertools.combinations(range(layers), size)]


@given(st.integers(1, 5), st.integers(1, 5), st.randoms(use_true_random=False))
def test_a_beam_that_holds_everything_finds_the_best(layers: int, most: int, random: Random) -> None:
    scores = {chosen: random.randint(0, 4) for chosen in all_sets(layers, min(most, layers))}
    asked: list[Layers] = []

    def score(candidates: Sequence[Extension]) -> list[float]:
        asked.extend(candidate.layers for candidate in candidates)
        return [scores[candidate.layers] for candidate in candidates]

    steps = list(beam_search(score, layers, beam=100, most=most))
    assert sorted(asked) == sorted(scores)  # each set once
    for size, step in enumerate(steps, start=1):
        ranked = sorted(
            (Scored(chosen, figure) for chosen, figure in scores.items() if len(chosen) == size),
            key=lambda scored: (-scored.pck, scored.layers),  # of equal ones the smaller layers first
        )
        assert step.beam == tuple(ranked) and step.tried == len(ranked)


def test_a_narrow_beam_follows_its_members_only() -> None:
    """By hand: 0 and 2 are the best alone, so that (1, 3), the best of all, is never tried."""
    alone = {(0,): 5.0, (1,): 3.0, (2,): 4.0, (3,): 1.0}
    two = {(0, 1): 6.0, (0, 2): 2.0, (0, 3): 7.0, (1, 2): 7.0, (2, 3): 0.0, (1, 3): 99.0}
    scores = alone | two
    first, second = beam_search(lambda new: [scores[n.layers] for n in new], layers=4, beam=2, most=2)
    assert first.beam == (Scored((0,), 5), Scored((2,), 4)) and first.tried == 4
    assert second.beam == (Scored((0, 3), 7), Scored((1, 2), 7)) and second.tried == 5


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> PairDataset:
    folder = tmp_path_factory.mktemp("pascal") / "root"
    make_mini("pf-pascal", folder)
    return open_dataset("pf-pascal", folder, "val")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache folder, in which the search leaves nothing behind."""
    monkeypatch.setenv("DHPF_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def literal_pck(matcher: Matcher, pairs: Sequence[Pair], sets: Sequence[Layers]) -> dict[Layers, float]:
    """Blocks in half precision, resized, concatenated, matched and transferred anew for each set."""
    network = HPF(matcher.network.backbone, range(len(matcher.network.backbone.channels)))
    every = Matcher(network, "every layer", matcher.size)
    shares: dict[Layers, list[float]] = {chosen: [] for chosen in sets}
    for pair in pairs:
        sides = [every.features(photo.image()).features for photo in (pair.source, pair.target)]
        a, b = ([block[0].half().float() for block in side.blocks.values()] for side in sides)
        grid, size = sides[0].grid, sides[0].size
        points = pair.source.points * np.array(matcher.size) / pair.source.size
        for chosen in sets:
            found = literal.match([a[n] for n in chosen], [b[n] for n in chosen], grid, grid, size, size)
            best = found.best.numpy()
            rows, columns = np.divmod(np.arange(len(best)), grid[1])
            to_rows, to_columns = np.divmod(best, grid[1])
            moved = []
            for x, y in points:
                near = (abs(4 * columns - x) <= 5) & (abs(4 * rows - y) <= 5)
                dx, dy = (to_columns - columns)[near].mean(), (to_rows - rows)[near].mean()
                moved.append((x + 4 * dx, y + 4 * dy))
            truth = pair.target.points * 240 / np.array(pair.target.size)
            errors = np.linalg.norm(np.array(moved) * 240 / np.array(matcher.size) - truth, axis=1)
            shares[chosen].append(float(np.mean(errors <= ALPHA * 240)))
    return {chosen: round(100 * float(np.mean(values)), 9) for chosen, values in shares.items()}


def search(matcher: Matcher, pairs: PairDataset, **options: object) -> LayerSearch:
    return search_layers(matcher, pairs, **({"alpha": ALPHA} | options))  # type: ignore[arg-type]


def test_up_to_two_layers_the_search_is_exhaustive(
    pairs: PairDataset, quick: Matcher, home: Path, one_thread: None
) -> None:
    found = search(quick, pairs, beam=17, most_layers=2)
    expected = literal_pck(quick, list(pairs), [*all_sets(17, 2), (2, 7, 11, 12, 15)])
    for size, step in enumerate(found.steps, start=1):
        sets = [chosen for chosen in expected if len(chosen) == size]
        assert step.tried == len(sets)
        ranked = sorted(sets, key=lambda chosen: (-expected[chosen], chosen))[:17]
        assert [scored.layers for scored in step.beam] == ranked
        np.testing.assert_allclose([s.pck for s in step.beam], [expected[chosen] for chosen in ranked])
    best = min((chosen for chosen in expected if len(chosen) < 3), key=lambda c: (-expected[c], len(c), c))
    assert found.found.layers == best
    assert found.reference.layers == (2, 7, 11, 12, 15)
    assert found.reference.pck == pytest.approx(expected[2, 7, 11, 12, 15])
    assert (found.pairs, found.excluded, found.skipped) == (3, 0, ())
    assert len(set(expected.values())) > 10  # the sets can be told apart
    assert not list(home.iterdir())


def test_the_number_of_threads_changes_nothing(pairs: PairDataset, quick: Matcher) -> None:
    one, three = (search(quick, pairs, beam=2, most_layers=3, workers=workers) for workers in (1, 3))
    assert one.to_dict() == three.to_dict()
    assert [len(step.beam[0].layers) for step in one.steps] == [1, 2, 3]


def test_pairs_of_another_split_are_left_out_in_either_order(
    pairs: PairDataset, quick: Matcher, one_thread: None
) -> None:
    other = open_dataset("pf-pascal", pairs.root, "val")
    other.entries = (
        pairs.entries[1]._replace(source=pairs.entries[1].target, target=pairs.entries[1].source),
    )
    found = search(quick, pairs, exclude=other, beam=1, most_layers=1)
    assert (found.pairs, found.excluded) == (2, 1)
    expected = literal_pck(quick, [pairs[0], pairs[2]], all_sets(17, 1))
    assert found.found.pck == pytest.approx(max(expected.values()))
    with pytest.raises(InputError, match="no pair of pf-pascal, val is left"):
        search(quick, pairs, exclude=pairs)


def test_the_protocol_may_want_the_other_direction(
    pairs: PairDataset, quick: Matcher, one_thread: None
) -> None:
    protocol = protocol_for("pf-pascal", changes=["direction=target-to-source"])
    found = search(quick, pairs, protocol=protocol, beam=1, most_layers=1)
    expected = literal_pck(quick, [pair.swap() for pair in pairs], all_sets(17, 1))
    assert found.found.pck == pytest.approx(max(expected.values()))


def test_pairs_without_points_are_counted(quick: Matcher, tmp_path: Path) -> None:
    make_mini("pf-pascal", tmp_path / "root")
    lines = (tmp_path / "root" / "val_pairs.csv").read_text().splitlines()
    cells = lines[1].split(",")
    lines[1] = ",".join([*cells[:3], "", "", "", "", *cells[7:]])
    (tmp_path / "root" / "val_pairs.csv").write_text("\n".join(lines) + "\n")
    pairs = open_dataset("pf-pascal", tmp_path / "root", "val")
    found = search(quick, pairs, beam=1, most_layers=1)
    assert (found.pairs, found.skipped) == (2, ((pairs.entries[0].id, "no common points"),))


def test_a_model_that_chooses_layers_itself_is_refused(pairs: PairDataset, quick: Matcher) -> None:
    dynamic = Matcher(DHPF(quick.network.backbone), "dynamic", size=64)
    with pytest.raises(InputError, match="dynamic chooses its layers by itself"):
        search_layers(dynamic, pairs)


@given(st.integers(2, 12), st.integers(2, 12), st.data())
def test_cells_around_points_are_those_that_the_transfer_averages(
    height: int, width: int, data: st.DataObject
) -> None:
    x = data.draw(st.floats(0, 4 * width))
    y = data.draw(st.floats(0, 4 * height))
    chosen = cells_around(np.array([[x, y]]), (height, width))
    inside = np.zeros(height * width)
    inside[chosen] = 1
    mean = Neighbourhoods(inside.reshape(height, width)).mean(np.array([x]), np.array([y]))
    assert mean == pytest.approx(1)  # no cell of the average is missing
    outside = np.ones(height * width)
    outside[chosen] = 0
    mean = Neighbourhoods(outside.reshape(height, width)).mean(np.array([x]), np.array([y]))
    assert mean == pytest.approx(0)
