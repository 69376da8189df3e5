"""Charts are the same bytes every time, need no network, and hold the numbers that they show."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image

from dhpf.analysis.agreement import agreements
from dhpf.analysis.charts import CARD, INK, Chart, to_csv
from dhpf.analysis.comparison_figures import agreement, agreement_beyond_habit, quality_against_time
from dhpf.analysis.selection import Selection, quality, select
from dhpf.analysis.selection_figures import dimensions, gates_by_category, layer_counts, layers_by_category
from dhpf.analysis.timing import Timing
from dhpf.errors import InputError
from dhpf.evaluate.predictions import Predictions

from .conftest import of_layers

Make = Callable[..., Predictions]
CATEGORIES = ["cat", "cat", "bus", "unicorn"]


def read(chart: Chart) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(chart.csv)))


def first_model() -> Selection:
    return select(of_layers([{0, 3}, {0}, {1, 2, 3}, {5}], CATEGORIES), "one")


@pytest.fixture(scope="module")
def charts() -> dict[str, Chart]:
    one = first_model()
    two = select(of_layers([{0, 3}, {3}, {1, 2}, {5}], CATEGORIES, off=31), "two")
    found, _ = agreements([one, two])
    timed = {
        each.label: (quality(each.predictions), Timing(np.array(times)))
        for each, times in ((one, [10.0, 20.0, 60.0]), (two, [5.0]))
    }
    drawn = (
        layers_by_category(one, "layers"),
        gates_by_category(one, "gates"),
        layer_counts([one, two]),
        dimensions([one, two]),
        agreement(found, one.channels, "agreement"),
        agreement_beyond_habit(found, one.channels, "beyond"),
        quality_against_time(timed),
    )
    return {chart.name: chart for chart in drawn}


def test_pictures_say_nothing_of_time_and_place(charts: dict[str, Chart]) -> None:
    again = layers_by_category(first_model(), "layers")
    assert (again.svg, again.png) == (charts["layers"].svg, charts["layers"].png)
    for chart in charts.values():
        assert not re.search(r"<dc:date>|Matplotlib|href=\"(?!#|data:)", chart.svg)
        picture = Image.open(io.BytesIO(chart.png))
        assert picture.format == "PNG" and min(picture.size) > 150 and "Software" not in picture.info


def test_on_a_page_the_style_sheet_sets_ink_and_paper(charts: dict[str, Chart]) -> None:
    for chart in charts.values():
        assert CARD in chart.svg and INK in chart.svg
        assert CARD not in chart.inline and INK not in chart.inline
        assert "var(--ink)" in chart.inline and chart.inline.startswith('<svg class="chart" role="img"')
    assert ">unicorn  1<" in charts["layers"].inline  # text stays text


def test_numbers_beside_the_heat_map(charts: dict[str, Chart]) -> None:
    rows = {row["category"]: row for row in read(charts["layers"])}
    assert list(rows) == [
        *("cat", "all animals", "bus", "all vehicles", "unicorn", "all other", "all pairs"),
    ]
    assert [rows["cat"][f"layer {layer}"] for layer in range(4)] == ["1.0", "0.0", "0.0", "0.5"]
    assert (rows["cat"]["pairs"], rows["all pairs"]["layer 3"]) == ("2", "0.5")
    gates = {row["category"]: row for row in read(charts["gates"])}
    assert [gates["cat"][f"layer {layer}"] for layer in (0, 1, 3)] == ["0.9", "0.2", "0.55"]


def test_numbers_beside_the_other_figures(charts: dict[str, Chart]) -> None:
    counts = {
        (row["model"], row["group"], row["layers on"]): row["pairs"] for row in read(charts["layer_counts"])
    }
    assert (
        counts["one", "animals", "2"]
        == counts["one", "animals", "1"]
        == counts["two", "vehicles", "2"]
        == "1"
    )
    assert sum(map(int, counts.values())) == 8
    widths = {(row["model"], row["group"]): row for row in read(charts["dimension"])}
    assert widths["one", "animals"]["mean dimension"] == "24.0"  # (64 + 256 + 64) / 8 over two pairs
    assert widths["one", "all"]["of all layers"] == str((64 + 3 * 256 + 4 * 512 + 6 * 1024 + 3 * 2048) // 8)
    (alike,) = read(charts["agreement"])
    assert float(alike["mean jaccard"]) == pytest.approx((1 + 0 + 2 / 3 + 1) / 4, abs=1e-6)
    (beyond,) = read(charts["beyond"])
    assert (beyond["correlation 1"], beyond["correlation 9"]) == ("1.0", "")
    best, fast = read(charts["quality_against_time"])
    assert (best["PCK@0.1"], best["median ms"], best["third quartile ms"]) == ("100.0", "20.0", "40.0")
    assert (fast["PCK@0.1"], fast["median ms"], fast["pairs timed"]) == ("0.0", "5.0", "1")


def test_one_category_and_two_backbones(make: Make) -> None:
    small, deep = select(make([{1}]), r"$\frac$ <small>"), select(make([range(30)], depth=101), "deep")
    chart = layers_by_category(small, "layers")
    assert ">$\\frac$ &lt;small&gt;<" in chart.svg  # a name is a name, not a formula
    alone = read(chart)
    assert [row["category"] for row in alone] == ["cat", "all animals"]
    counts = read(layer_counts([small, deep]))
    assert [row["layers on"] for row in counts if row["pairs"] == "1"] == ["1", "30"]


def test_without_matplotlib_the_cure_is_named(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"pip install 'dhpf\[plots\]'"):
        layer_counts([select(make([{1}]), "m")])


def test_a_table_leaves_out_what_is_not_there() -> None:
    assert to_csv(("a", "b"), [(None, float("nan")), (0.5, "x,y")]) == 'a,b\n,\n0.5,"x,y"\n'
