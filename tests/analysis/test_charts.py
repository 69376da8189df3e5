"""Charts are the same bytes every time, need no network, and hold the numbers that they show."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from dhpf.analysis.charts import Chart
from dhpf.analysis.figures import draw_figures, layer_frequency
from dhpf.analysis.report import notes, print_overview, to_html
from dhpf.analysis.study import ModelStudy, _accuracy
from dhpf.errors import InputError
from dhpf.files import csv_text

from .conftest import of_layers

CATEGORIES = ["cat", "cat", "bus", "unicorn"]


def study(label: str, chosen: Sequence[Any], times: Sequence[float] = (), **about: Any) -> ModelStudy:
    predictions = of_layers(chosen, CATEGORIES[: len(chosen)], **about)
    return ModelStudy(label, predictions, *_accuracy(predictions), np.array(times) if len(times) else None)


def two() -> list[ModelStudy]:
    return [
        study("one", [{0, 3}, {0}, {1, 2, 3}, {5}], [10.0, 20.0, 60.0]),
        study("two", [{0, 3}, {3}, {1, 2}, {5}], [5.0], off=31, gated=False),
    ]


@pytest.fixture(scope="module")
def charts() -> dict[str, Chart]:
    return {chart.name: chart for chart in draw_figures(two())}


def read(chart: Chart) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(chart.files()[f"{chart.name}.csv"].decode())))


def test_the_papers_figures_are_there(charts: dict[str, Chart]) -> None:
    assert list(charts) == [
        *("accuracy_against_time", "layer_frequency", "layer_counts"),
        *("layers_by_category-1-one", "gates_by_category-1-one", "layers_by_category-2-two"),
    ]
    untimed = draw_figures([replace(two()[1], milliseconds=None)])
    names = [chart.name for chart in untimed]
    assert names == ["layer_frequency", "layer_counts", "layers_by_category-1-two"]


def test_pictures_say_nothing_of_time_and_place(charts: dict[str, Chart]) -> None:
    again, chart = layer_frequency(two()), charts["layer_frequency"]
    assert (again.svg, again.png) == (chart.svg, chart.png)
    for chart in charts.values():
        assert not re.search(r"<dc:date>|Matplotlib|href=\"(?!#|data:)", chart.svg)
        picture = Image.open(io.BytesIO(chart.png))
        assert picture.format == "PNG" and min(picture.size) > 150 and "Software" not in picture.info


def test_numbers_beside_the_figures_by_category(charts: dict[str, Chart]) -> None:
    rows = {row["category"]: row for row in read(charts["layers_by_category-1-one"])}
    assert list(rows) == ["cat", "bus", "unicorn", "all pairs"]
    assert [rows["cat"][f"layer {layer}"] for layer in range(4)] == ["1.0", "0.0", "0.0", "0.5"]
    assert (rows["cat"]["pairs"], rows["all pairs"]["layer 3"], rows["bus"]["kind"]) == (
        "2",
        "0.5",
        "vehicles",
    )
    gates = {row["category"]: row for row in read(charts["gates_by_category-1-one"])}
    assert [gates["cat"][f"layer {layer}"] for layer in (0, 1, 3)] == ["0.9", "0.2", "0.55"]


def test_numbers_beside_the_other_figures(charts: dict[str, Chart]) -> None:
    frequency = {
        (row["model"], row["layer"]): row["% of the pairs"] for row in read(charts["layer_frequency"])
    }
    assert (frequency["one", "0"], frequency["two", "0"], frequency["one", "11"]) == ("50.0", "25.0", "0.0")
    counts = {(row["model"], row["layers on"]): row["pairs"] for row in read(charts["layer_counts"])}
    assert [counts["one", str(on)] for on in range(5)] == ["0.0", "2.0", "1.0", "1.0", "0.0"]
    best, fast = read(charts["accuracy_against_time"])
    assert (best["PCK@0.1"], best["median ms"], best["third quartile ms"]) == ("100.0", "20.0", "40.0")
    assert (fast["PCK@0.1"], fast["median ms"], fast["pairs timed"]) == ("0.0", "5.0", "1")


@pytest.mark.parametrize("count", [1, 12, 34])
def test_any_number_of_layers(count: int) -> None:
    """A vision transformer's 12 blocks beside any other backbone: axes and tables follow the number."""
    one = study("one", [{0}], count=count, gated=False)
    other = study("other", [range(12)], count=12, gated=False)
    charts = {chart.name: chart for chart in draw_figures([one, other])}
    frequency = [row["model"] for row in read(charts["layer_frequency"])]
    assert (frequency.count("one"), frequency.count("other")) == (count, 12)
    assert list(read(charts["layers_by_category-1-one"])[0])[4:] == [f"layer {n}" for n in range(count)]
    svg = charts["layers_by_category-1-one"].svg
    ticks = [int(label) for label in re.findall(r'id="xtick_\d+">.*?>([^<]*)</text>', svg, re.DOTALL)]
    assert ticks == list(range(0, count, 2 if count > 20 else 1))


def test_names_are_names_not_markup() -> None:
    strange = study(r"$\frac$ <b>[red]x[/red]", [{1}])
    chart = draw_figures([strange])[0]
    assert ">$\\frac$ &lt;b&gt;[red]x[/red] (1.0 of 12 layers)<" in chart.svg
    page = to_html([strange], [chart])
    assert "&lt;b&gt;[red]" in page and "<b>" not in page
    console = Console(record=True, width=200, file=io.StringIO())
    print_overview([strange], console)
    assert r"$\frac$ <b>[red]x[/red]" in console.export_text()


def test_what_is_missing_is_said() -> None:
    assert notes([study("m", [{1}])]) == [
        "Time per pair: not measured, since predictions files do not hold it; "
        "give models and a data set (--model, --dataset, --root) to measure it."
    ]
    assert notes(two()) == []


def test_without_matplotlib_the_cure_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"pip install 'dhpf\[plots\]'"):
        draw_figures([study("m", [{1}])])


def test_a_table_leaves_out_what_is_not_there() -> None:
    assert csv_text([("a", "b"), (None, 1), (0.5, "x,y")]) == 'a,b\n,1\n0.5,"x,y"\n'
