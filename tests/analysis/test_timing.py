"""Models are timed in turn, on the same pairs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, cast

from dhpf.analysis.timing import time_pairs
from dhpf.data import make_mini, open_dataset
from dhpf.matcher import Matcher


class Sleeper:
    """In place of a matcher: takes its time, and says when it was asked."""

    def __init__(self, name: str, seconds: float, calls: list[tuple[str, int]]) -> None:
        self.name, self.seconds, self.calls = name, seconds, calls

    def match(self, source: Any, target: Any) -> None:
        self.calls.append((self.name, int(source.sum()) + int(target.sum())))
        time.sleep(self.seconds)


def test_in_turn_on_the_same_pairs(tmp_path: Path) -> None:
    make_mini("pf-pascal", tmp_path / "data")
    dataset = open_dataset("pf-pascal", tmp_path / "data", "test")
    calls: list[tuple[str, int]] = []
    models = cast(list[Matcher], [Sleeper("a", 0.002, calls), Sleeper("b", 0.02, calls)])
    ids = [entry.id for entry in dataset.entries[:-1]]  # the last was skipped
    quick, slow = time_pairs(models, dataset, ids, count=3)
    names = [name for name, _ in calls]
    assert names == ["a", "b", *"ab", *"ba", *"ab"]  # once to warm up, then who is first changes
    pairs = [pair for _, pair in calls[2:]]
    assert pairs[0::2] == pairs[1::2] and len(set(pairs)) == 3
    assert len(quick) == 3 and (quick >= 2).all()
    assert (slow >= 20).all()


def test_no_more_pairs_than_there_are(tmp_path: Path) -> None:
    make_mini("pf-pascal", tmp_path / "data")
    dataset = open_dataset("pf-pascal", tmp_path / "data", "test")
    model = cast(Matcher, Sleeper("a", 0, []))
    times = time_pairs([model], dataset, [entry.id for entry in dataset.entries], count=50)
    assert times.shape == (1, len(dataset)) == (1, 9)
