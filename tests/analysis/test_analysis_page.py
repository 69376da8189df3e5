"""The page on analysis: its example runs."""

from __future__ import annotations

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "analysis.md"


def test_the_example_runs() -> None:
    failed, tried = doctest.testfile(str(PAGE), module_relative=False)
    assert tried > 4 and failed == 0
