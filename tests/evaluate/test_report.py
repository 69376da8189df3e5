from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dhpf.errors import InputError
from dhpf.evaluate.gallery import rank
from dhpf.evaluate.predictions import PairPrediction, Predictions
from dhpf.evaluate.report import to_html
from dhpf.evaluate.score import score_predictions
from dhpf.evaluate.svg import Bar, bar_chart, line_chart

MakePair = Callable[..., PairPrediction]
Make = Callable[..., Predictions]
Element = tuple[str, dict[str, str | None]]


class Page(HTMLParser):
    """Collects elements and text, and checks that what opens is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self.open: list[str] = []
        self.words = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data

    def of_class(self, name: str) -> list[dict[str, str | None]]:
        return [found for _, found in self.elements if name in (found.get("class") or "").split()]


@pytest.fixture
def pairs(make_pair: MakePair) -> list[PairPrediction]:
    """Three pairs, from the worst to the best."""
    truth = np.array([(30.0, 40.0), (130.0, 40.0), (30.0, 120.0)])
    return [
        make_pair(name, predicted_points=truth + np.array([shift, 0]))
        for name, shift in (("c", 90), ("b", 9), ("a", 0))
    ]


def report(predictions: Predictions, root: Path | None = None) -> Page:
    return Page(to_html(predictions, score_predictions(predictions), root))


def test_needs_nothing_from_elsewhere(pairs: list[PairPrediction], make_predictions: Make) -> None:
    text = to_html(predictions := make_predictions(*pairs), score_predictions(predictions))
    assert "http" not in text and "url(" not in text and "@import" not in text
    assert not {"script", "link", "img", "iframe"} & {name for name, _ in Page(text).elements}


def test_pairs_are_ranked_by_their_mean_error(
    pairs: list[PairPrediction], make_pair: MakePair, make_predictions: Make
) -> None:
    silent = make_pair("silent", predicted_points=np.full((3, 2), np.nan))
    predictions = make_predictions(silent, *pairs)
    assert rank(predictions, score_predictions(predictions)) == [3, 2, 1, 0]
    text = to_html(predictions, score_predictions(predictions))
    assert re.findall(r'<span class="pair">(\w+)</span>', text) == [
        "a",
        "b",
        "silent",
        "c",
    ]  # 2 best, 2 worst


def test_points_are_drawn_where_they_are(pairs: list[PairPrediction], make_predictions: Make) -> None:
    page = report(make_predictions(pairs[0]))
    assert [(dot["cx"], dot["cy"]) for dot in page.of_class("source")] == [
        ("30", "40"),
        ("130", "40"),
        ("30", "120"),
    ]
    assert [dot["cx"] for dot in page.of_class("truth")] == ["30", "130", "30"]
    wrong = [dot["cx"] for dot in page.of_class("wrong") if "cx" in dot]
    assert wrong == ["120", "220", "120"] and not page.of_class("right")
    # alpha 0.1 of the 240-px square is 24 px there: 30 px along x and 20 along y of the 300 x 200 original.
    assert {(ring["rx"], ring["ry"]) for ring in page.of_class("allowed")} == {("30", "20")}


def test_photos_are_inlined(pairs: list[PairPrediction], make_predictions: Make, tmp_path: Path) -> None:
    folder = tmp_path / "JPEGImages"
    folder.mkdir()
    Image.new("RGB", (900, 600), (200, 40, 40)).save(folder / "c_a.jpg")
    (tmp_path / "c_b.jpg").write_bytes(b"not a photo")
    page = report(make_predictions(pairs[0]), tmp_path)
    [photo] = [found for name, found in page.elements if name == "image"]
    kind, _, content = str(photo["href"]).partition(",")
    assert kind == "data:image/jpeg;base64"
    with Image.open(io.BytesIO(base64.b64decode(content))) as image:
        assert image.size == (360, 240)
        assert image.getpixel((180, 120)) == pytest.approx((200, 40, 40), abs=3)
    assert (photo["width"], photo["height"]) == ("300", "200")  # in the pixels of the points
    assert "1 photos were not found or not readable" in page.words


def test_without_photos_it_says_so(
    pairs: list[PairPrediction], make_predictions: Make, tmp_path: Path
) -> None:
    assert "Points only: give the data set's folder (--root)" in report(make_predictions(*pairs)).words
    with pytest.raises(InputError, match="none: no such folder"):
        report(make_predictions(*pairs), tmp_path / "none")


def test_figures_and_fingerprint_are_on_the_page(pairs: list[PairPrediction], make_predictions: Make) -> None:
    page = report(make_predictions(*pairs, skipped=[("x", "why")], training_images=["c_a.jpg"]))
    assert "66.7" in page.words and "100.0" in page.words  # all pairs; leak-free pairs
    assert "Skipped pairs: 1 (1 x why)." in page.words
    assert page.words.count("pck[threshold=image frame=square240") == 4  # head, curve, category, points


def test_names_cannot_break_the_page(make_pair: MakePair, make_predictions: Make) -> None:
    evil = '<script>"&'
    page = report(make_predictions(make_pair(evil, category=evil), model=evil))
    assert "script" not in {name for name, _ in page.elements}
    assert f"{evil} on pf-pascal, test" in page.words


def test_polygons_are_drawn_as_outlines(make_pair: MakePair, make_predictions: Make) -> None:
    page = report(make_predictions(dataset="caltech-101", kind="polygons"))
    assert [shape["points"] for shape in page.of_class("outline")] == ["30.0,40.0 130.0,40.0 30.0,120.0"] * 3
    assert "Ranked by IoU" in page.words and "PCK" not in page.words


def test_bars_are_as_long_as_their_value() -> None:
    page = Page(bar_chart([Bar("half", 50, (25, 75)), Bar("all", 100)], "title"))
    lengths = [float(str(bar["width"])) for bar in page.of_class("bar")]
    assert lengths[1] == 2 * lengths[0]
    span = page.of_class("whisker")[0]
    assert float(str(span["x2"])) - float(str(span["x1"])) == lengths[0]  # from 25 to 75 percent


def test_curves_pass_through_their_values() -> None:
    page = Page(line_chart([0, 0.1, 0.2], [0, 50, 100], [(0.1, 50)], "title", "alpha"))
    points = [tuple(map(float, pair.split(","))) for pair in str(page.of_class("curve")[0]["points"]).split()]
    mark = page.of_class("mark")[0]
    assert points[1] == (float(str(mark["cx"])), float(str(mark["cy"])))
    np.testing.assert_allclose(np.mean([points[0], points[2]], axis=0), points[1])
