"""The page on analysis: its example runs, and its arithmetic is right."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "analysis.md"


def test_the_example_runs() -> None:
    failed, tried = doctest.testfile(str(PAGE), module_relative=False)
    assert tried > 4 and failed == 0


def test_the_papers_dimensions_are_twice_ours() -> None:
    channels = 64 + 3 * 256 + 4 * 512 + 23 * 1024 + 3 * 2048
    assert (channels, channels // 8) == (32576, 4072)
    shares = [dimension / (2 * channels / 8) for dimension in (2089, 3080, 3962)]
    assert shares == pytest.approx([0.26, 0.38, 0.49], abs=0.005)
    text = PAGE.read_text(encoding="utf-8")
    assert "32576 channels, an eighth of which is 4072" in text and "0.26, 0.38 and 0.49 of 8144" in text
