"""Plain data -> typed settings, or one line that says what is wrong with which key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from dhpf import InputError
from dhpf.settings import all_keys, from_mapping


@dataclass(frozen=True)
class Part:
    rate: float = 0.5
    name: str = "plain"

    def __post_init__(self) -> None:
        if self.rate < 0:
            raise InputError(f"rate = {self.rate:g}; wanted at least 0")


@dataclass(frozen=True)
class Whole:
    count: int
    on: bool = False
    sides: tuple[int, int] = (1, 2)
    names: tuple[str, ...] = ()
    part: Part = field(default_factory=Part)
    other: Part | None = None
    maybe: tuple[str, ...] | None = ()
    figures: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def test_every_kind_of_field() -> None:
    content = {
        "count": 3,
        "on": True,
        "sides": [4, 5],
        "names": ["a", "b"],
        "part": {"rate": 2},  # a whole number may stand for a float
        "other": {"name": "x"},
        "maybe": None,
        "figures": {"test": {"pck": {"0.1": 80.0}, "pairs": 3}},
    }
    assert from_mapping(Whole, content, "here") == Whole(
        count=3,
        on=True,
        sides=(4, 5),
        names=("a", "b"),
        part=Part(rate=2.0),
        other=Part(name="x"),
        maybe=None,
        figures={"test": {"pck": {"0.1": 80.0}, "pairs": 3}},
    )
    assert from_mapping(Whole, {"count": 1}, "here") == Whole(1)
    assert from_mapping(Whole, {"count": 1, "other": None}, "here").other is None
    assert isinstance(from_mapping(Whole, {"count": 1, "part": {"rate": 2}}, "here").part.rate, float)


WRONG = {
    "no table": (3, "here: the content = 3; wanted a table of settings"),
    "a part that is no table": ({"count": 1, "part": 3}, "here: part = 3; wanted a table of settings"),
    "an optional part that is none": (
        {"count": 1, "other": 3},
        "here: other = 3; wanted a table of settings",
    ),
    "a key that is missing": ({}, "here: count is missing"),
    "a word for a number": ({"count": "3"}, "here: count = '3'; wanted a whole number"),
    "a truth value for a number": ({"count": True}, "here: count = True; wanted a whole number"),
    "a float for a whole number": ({"count": 1.0}, "here: count = 1.0; wanted a whole number"),
    "a number for a truth value": ({"count": 1, "on": 1}, "here: on = 1; wanted true or false"),
    "no number": ({"count": 1, "part": {"rate": float("nan")}}, "part.rate = nan; wanted a finite number"),
    "beyond floats": ({"count": 1, "part": {"rate": 10**400}}, r"part.rate = 10+\.\.\.0+; wanted a number"),
    "too few": ({"count": 1, "sides": [1]}, r"sides = \[1\]; wanted 2 values, each a whole number"),
    "of the wrong kind": ({"count": 1, "names": [1]}, r"names = \[1\]; wanted a list of values, each text"),
    "text for a list": ({"count": 1, "names": "ab"}, "names = 'ab'; wanted a list of values, each text"),
    "null": ({"count": None}, "here: count = None; wanted a whole number"),
    "a list for a table": ({"count": 1, "figures": []}, r"figures = \[\]; wanted a table"),
    "within a table": ({"count": 1, "figures": {"test": 3}}, "figures.test = 3; wanted a table"),
    "a key that is near": (
        {"coutn": 1},
        "unknown key in here 'coutn': did you mean 'count'. Known: count, on,",
    ),
    "a key of a part": ({"rate": 1}, "unknown key in here 'rate': did you mean 'part.rate'"),
    "a key that nothing is near": (
        {"count": 1, "zzzzzz": 1},
        "unknown key in here 'zzzzzz': Known: count, on,",
    ),
    "what the settings themselves refuse": (
        {"count": 1, "part": {"rate": -1}},
        "here: part.rate = -1; wanted at least 0",
    ),
    "a long value": ({"count": "x" * 10**6}, "count = 'xxx"),
    "a long key": ({"x" * 10**6: 1}, "unknown key in here 'xxx"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong(case: str) -> None:
    content, complaint = WRONG[case]
    with pytest.raises(InputError, match=complaint) as raised:
        from_mapping(Whole, content, "here")
    assert len(str(raised.value)) < 250


def test_all_keys() -> None:
    parts = ["part.rate", "part.name", "other.rate", "other.name"]
    assert all_keys(Whole) == ["count", "on", "sides", "names", *parts, "maybe", "figures"]
