"""The page on evaluation: its example runs."""

from __future__ import annotations

import doctest
from pathlib import Path


def test_the_example_runs() -> None:
    page = Path(__file__).parents[2] / "docs" / "evaluation.md"
    failed, tried = doctest.testfile(str(page), module_relative=False)
    assert tried > 5 and failed == 0
