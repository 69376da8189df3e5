"""Paired differences with answers worked out by hand, and the test against all tosses spelt out."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from dhpf.cli.compare import compare as compare_command
from dhpf.errors import InputError
from dhpf.evaluate.compare import compare, sign_flip_test, to_dict
from dhpf.evaluate.predictions import PairPrediction, Predictions
from dhpf.evaluate.protocol import protocol_for

MakePair = Callable[..., PairPrediction]
Make = Callable[..., Predictions]


@pytest.fixture
def method(make_pair: MakePair, make_predictions: Make) -> Callable[..., Predictions]:
    """A method that gets so many points right: of 2 in the pairs p0, p1, ... and of 4 in the last one."""

    def make(*right: int, **changes: object) -> Predictions:
        pairs = []
        for number, count in enumerate(right):
            truth = np.arange(8.0 if number == len(right) - 1 else 4.0).reshape(-1, 2)
            guess = truth + np.array([(0, 0)] * count + [(900, 0)] * (len(truth) - count))
            category = "cat" if number < 2 else "dog"
            name = f"p{number}"
            pairs.append(make_pair(name, target_points=truth, predicted_points=guess, category=category))
        return make_predictions(*pairs, **changes)

    return make


def test_differences_by_hand(method: Callable[..., Predictions]) -> None:
    """Pairs of 2, 2, 2 and 4 points: 1, 0, 2, 1 right against 2, 2, 2, 0: +50, +100, 0 and -25 percent."""
    a, b = method(1, 0, 2, 1, model="old"), method(2, 2, 2, 0, model="new")
    found = compare(a, b, alphas=[0.1])
    assert [summary.values for summary in found.figures] == [(43.75,), (75,)]
    assert found.difference.values == (31.25,) and found.difference.pairs == 4
    assert {name: summary.values for name, summary in found.by_category.items()} == {
        "cat": (75,),
        "dog": (-12.5,),
    }
    # +-50 +-100 +-25 is as far from 0 as 125 in 4 of 8 tosses: 175, 125 and their opposites.
    assert found.p_values == (0.5,)
    by_point = compare(a, b, protocol_for("pf-pascal", changes=["average=point"]), alphas=[0.1])
    assert by_point.difference.values == (pytest.approx(20),)  # 4 and 6 of 10 points


def test_the_interval_is_that_of_the_paired_difference(method: Callable[..., Predictions]) -> None:
    """b has one more of 2 points right in every pair: the methods vary, their difference does not."""
    a, b = method(0, 1, 0, 1, 0, 1, 2), method(1, 2, 1, 2, 1, 2, 4)
    found = compare(a, b, alphas=[0.1])
    assert found.difference.values == (50,) and found.difference.intervals == ((50, 50),)
    assert found.figures[0].intervals is not None and found.figures[0].intervals[0][0] < 20
    assert found.p_values == (2 / 2**7,)


def test_only_common_pairs_count_in_any_order(
    method: Callable[..., Predictions], make_predictions: Make
) -> None:
    a, b = method(1, 0, 2, 1), method(2, 2, 2, 0)
    some = make_predictions(*(b.pair(index) for index in (3, 0, 1)))
    found = compare(make_predictions(*(a.pair(index) for index in (1, 2, 3))), some, alphas=[0.1])
    assert (found.difference.pairs, found.difference.points) == (2, 6)  # p1 and p3
    assert found.difference.values == (37.5,)  # +100 and -25
    again = compare(some, a, alphas=[0.1])
    assert again.difference.values == (pytest.approx(-125 / 3),)


@pytest.mark.parametrize("pairs", [1, 2, 5, 9])
def test_p_values_are_those_of_all_tosses(pairs: int) -> None:
    """The definition spelt out, in whole numbers: no rounding, no vectors."""
    random = np.random.default_rng(pairs)
    differences = random.integers(-3, 4, (pairs, 2))
    wanted = []
    for column in differences.T.tolist():
        sums = [
            abs(sum(sign * value for sign, value in zip(signs, column, strict=True)))
            for signs in itertools.product((1, -1), repeat=pairs)
        ]
        wanted.append(sum(each >= abs(sum(column)) for each in sums) / len(sums))
    assert sign_flip_test(differences.astype(float)) == pytest.approx(wanted)
    assert sign_flip_test(differences * 0.1) == pytest.approx(wanted)  # sums that are equal but for rounding


def test_random_tosses_come_near_to_all_of_them() -> None:
    differences = np.random.default_rng(0).normal(0.4, 1, (12, 1))
    (exact,) = sign_flip_test(differences, tosses=2**12)
    (sampled,) = sign_flip_test(differences, tosses=4000)
    assert 0.01 < exact < 0.99
    assert sampled == pytest.approx(exact, abs=5 * np.sqrt(exact * (1 - exact) / 4000))
    assert sampled == sign_flip_test(differences, tosses=4000)[0]


def test_p_values_at_the_ends() -> None:
    assert sign_flip_test(np.zeros((30, 1))) == (1,)  # the same method
    assert sign_flip_test(np.ones((40, 1)), tosses=999) == (1 / 1000,)  # none of the tosses is as far
    assert sign_flip_test(np.full((1, 1), 5.0)) == (1,)  # one pair proves nothing


def test_what_cannot_be_compared(
    method: Callable[..., Predictions], make_predictions: Make, make_pair: MakePair
) -> None:
    a = method(1, 1)
    for changes in ({"split": "val"}, {"dataset": "pf-willow"}, {"direction": "target-to-source"}):
        with pytest.raises(InputError, match=f"^{next(iter(changes))} '.*' and '.*' cannot be compared"):
            compare(a, method(1, 1, **changes))
    with pytest.raises(InputError, match="no pair in common"):
        compare(a, make_predictions(make_pair("other")))
    with pytest.raises(InputError, match="pair p0 is annotated differently"):
        compare(a, make_predictions(make_pair("p0")))


def test_the_command(method: Callable[..., Predictions], tmp_path: Path) -> None:
    a = method(1, 0, 2, 1, model="old[1]").save(tmp_path / "a.npz")
    b = method(2, 2, 2, 0, model="new").save(tmp_path / "b.npz")
    app = typer.Typer()
    app.command()(compare_command)

    def run(*arguments: object) -> object:
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    done = run(a, b, "--alpha", 0.1, "--json", tmp_path / "c.json")
    assert done.exit_code == 0 and f"wrote {tmp_path / 'c.json'}" in done.output
    lines = [" ".join(line.split()) for line in done.output.splitlines()]
    assert "new (b) against old[1] (a) on pf-pascal, test" in lines
    assert any(line.startswith("PCK@0.1 43.8 75.0 +31.2 [") and line.endswith("] 0.5") for line in lines)
    assert "4 pairs are in both files; 0 are only in a, 0 only in b." in lines
    found = json.loads((tmp_path / "c.json").read_text())
    assert found == to_dict(compare(Predictions.load(a), Predictions.load(b), alphas=[0.1]))
    assert found["overall"]["0.1"] | {"interval": 0} == {
        **{"a": 43.75, "b": 75, "difference": 31.25, "interval": 0, "p_value": 0.5}
    }
    assert found["per_category"]["dog"]["0.1"]["difference"] == -12.5
    assert json.loads(run(a, b, "--json", "-").stdout)["pairs"] == 4
    for out in (a, b):
        assert "is an input; give the output another name" in str(run(a, b, "--json", out).exception)


def test_comparing_needs_no_torch(method: Callable[..., Predictions], tmp_path: Path) -> None:
    path = method(1, 1).save(tmp_path / "a.npz")
    program = (
        "import sys; sys.modules['torch'] = None; import typer; from dhpf.cli.compare import compare; "
        "app = typer.Typer(); app.command()(compare); app()"
    )
    done = subprocess.run([sys.executable, "-c", program, path, path], capture_output=True, text=True)
    assert done.returncode == 0 and "+0.0 [0.0, 0.0]" in done.stdout, done.stderr
