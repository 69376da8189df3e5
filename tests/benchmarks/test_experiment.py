"""The paper's own experiment: which test pairs leak, and the pages that its tables are written into."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmarks.leak import RECIPES, growth_table, page_table, parts_of
from benchmarks.record import write_between


def pair(*names: str) -> frozenset[str]:
    return frozenset(names)


def test_parts_of_the_test_pairs() -> None:
    """A pair leaks in either order; one that shares a single image does not, but its image was seen."""
    training = [pair("a", "b"), pair("c", "d")]
    test = [pair("b", "a"), pair("a", "x"), pair("x", "y"), pair("a", "d")]
    parts = {name: members.tolist() for name, members in parts_of(test, training).items()}
    assert parts == {
        "all": [True, True, True, True],
        "training pairs": [True, False, False, False],
        "other pairs": [False, True, True, True],
        "pairs of images unseen in training": [False, False, True, False],
    }


def test_tables_of_the_leak() -> None:
    """The last epochs part by part; the differences epoch by epoch."""
    five = {"all": [50.0, 70.0], "other": [1.0, 2.0]}, {"all": [49.0, 70.0], "other": [1.0, 2.5]}
    ten = {"all": [60.0, 80.0], "other": [5.0, 6.0]}, {"all": [50.5, 81.0], "other": [5.0, 6.1]}
    result: dict[str, Any] = {"pairs": {"all": 4, "other": 3}}
    for name, after_five, after_ten in zip(RECIPES, five, ten, strict=True):
        result[name] = {"5": {"pck": after_five}, "10": {"pck": after_ten}}
    assert page_table(result).splitlines()[2:] == [
        "| all | 4 | 60.0 / 80.0 | 50.5 / 81.0 | +9.5 / -1.0 |",
        "| other | 3 | 5.0 / 6.0 | 5.0 / 6.1 | +0.0 / -0.1 |",
    ]
    assert growth_table(result).splitlines()[2:] == [
        "| 5 | 50.0 / 70.0 | +0.0 / -0.5 |",
        "| 10 | 60.0 / 80.0 | +0.0 / -0.1 |",
    ]


def test_a_table_is_written_in_its_place(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A\n\n<!-- x -->\nold\n<!-- end of x -->\n\n<!-- y -->\nkept\n<!-- end of y -->\n")
    write_between(page, "x", r"| \mu |")
    assert page.read_text() == (
        "# A\n\n<!-- x -->\n\n| \\mu |\n\n<!-- end of x -->\n\n<!-- y -->\nkept\n<!-- end of y -->\n"
    )
    with pytest.raises(SystemExit, match=r"page\.md: wanted one place for z, found 0"):
        write_between(page, "z", "")
