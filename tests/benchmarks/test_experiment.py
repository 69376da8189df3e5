"""The paper's own experiment: which test pairs leak, and the pages that its tables are written into."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.leak import RECIPES, page_table, parts_of
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


def test_table_of_the_leak() -> None:
    figures = {RECIPES[0]: [60.0, 80.0, 90.0], RECIPES[1]: [50.5, 80.0, 91.0]}
    result = {"pairs": {"all": 4}} | {name: {"pck": {"all": values}} for name, values in figures.items()}
    last = page_table(result).splitlines()[-1]
    assert last == "| all | 4 | 60.0 / 80.0 / 90.0 | 50.5 / 80.0 / 91.0 | +9.5 / +0.0 / -1.0 |"


def test_a_table_is_written_in_its_place(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A\n\n<!-- x -->\nold\n<!-- end of x -->\n\n<!-- y -->\nkept\n<!-- end of y -->\n")
    write_between(page, "x", r"| \mu |")
    assert page.read_text() == (
        "# A\n\n<!-- x -->\n\n| \\mu |\n\n<!-- end of x -->\n\n<!-- y -->\nkept\n<!-- end of y -->\n"
    )
    with pytest.raises(SystemExit, match=r"page\.md: wanted one place for z, found 0"):
        write_between(page, "z", "")
