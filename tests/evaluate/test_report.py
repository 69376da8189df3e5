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
from dhpf.evaluate.gallery import BLACK, BLUE, RED, SIDE, rank
from dhpf.evaluate.predictions import PairPrediction, Predictions
from dhpf.evaluate.report import report as write_report
from dhpf.evaluate.score import score_predictions
from dhpf.grid import resize_points

MakePair = Callable[..., PairPrediction]
Make = Callable[..., Predictions]
Element = tuple[str, dict[str, str | None]]
GREY = (115, 114, 107)
GREEN = (40, 200, 40)


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
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data

    def pictures(self) -> list[Image.Image]:
        """The pictures of the gallery: source, target, source, ..."""
        found = []
        for name, attributes in self.elements:
            if name == "img":
                kind, _, content = str(attributes["src"]).partition(",")
                assert kind == "data:image/jpeg;base64"
                found.append(Image.open(io.BytesIO(base64.b64decode(content))))
        return found


@pytest.fixture
def pairs(make_pair: MakePair) -> list[PairPrediction]:
    """Three pairs, from the worst to the best."""
    truth = np.array([(30.0, 40.0), (130.0, 40.0), (30.0, 120.0)])
    return [
        make_pair(name, predicted_points=truth + np.array([shift, 0]))
        for name, shift in (("c", 90), ("b", 9), ("a", 0))
    ]


def report(predictions: Predictions, root: Path | None = None) -> Page:
    return Page(write_report(score_predictions(predictions), root))


def colour_at(picture: Image.Image, point: tuple[float, float], size: tuple[int, int] = (300, 200)) -> object:
    """The colour at a point in pixels of the original."""
    ((x, y),) = resize_points([point], size, picture.size)
    return picture.getpixel((round(x), round(y)))


def near(colour: str) -> object:
    """What JPEG makes of a colour."""
    return pytest.approx([int(colour[k : k + 2], 16) for k in (1, 3, 5)], abs=45)


def test_needs_nothing_from_elsewhere(pairs: list[PairPrediction], make_predictions: Make) -> None:
    text = write_report(score_predictions(make_predictions(*pairs)))
    assert "http" not in text and "url(" not in text and "@import" not in text
    assert not {"script", "link", "iframe"} & {name for name, _ in Page(text).elements}


def test_pairs_are_ranked_by_their_mean_error(
    pairs: list[PairPrediction], make_pair: MakePair, make_predictions: Make
) -> None:
    silent = make_pair("silent", predicted_points=np.full((3, 2), np.nan))
    score = score_predictions(make_predictions(silent, *pairs))
    assert rank(score) == [3, 2, 1, 0]
    shown = re.findall(r"<figcaption>(\w+) ", write_report(score))
    assert shown == ["a", "b", "silent", "c"]  # 2 best, 2 worst


def test_points_are_drawn_where_they_are(pairs: list[PairPrediction], make_predictions: Make) -> None:
    source, target = report(make_predictions(pairs[0])).pictures()
    assert source.size == target.size == (SIDE, round(SIDE * 200 / 300))
    for x, y in ((30, 40), (130, 40), (30, 120)):
        assert colour_at(source, (x, y)) == near(BLACK)
        assert colour_at(target, (x + 90, y)) == near(RED)  # the prediction
        assert colour_at(target, (x + 45, y)) == near(RED)  # on its line to the truth
    assert colour_at(target, (200, 180)) == colour_at(source, (200, 180)) == pytest.approx(GREY, abs=3)
    _, target = report(make_predictions(pairs[1])).pictures()
    assert colour_at(target, (39, 40)) == near(BLUE)  # 9 px of 30 that are allowed


def test_a_point_without_prediction_is_not_drawn(make_pair: MakePair, make_predictions: Make) -> None:
    guess = [(30, 40), (np.nan, np.nan), (30, np.nan)]
    _, target = report(make_predictions(make_pair(predicted_points=guess))).pictures()
    assert colour_at(target, (30, 40)) == near(BLUE)
    for truth in ((130, 40), (30, 120)):
        assert colour_at(target, truth) == pytest.approx(GREY, abs=3)


def test_images_are_inlined(pairs: list[PairPrediction], make_predictions: Make, tmp_path: Path) -> None:
    folder = tmp_path / "JPEGImages"
    folder.mkdir()
    Image.new("RGB", (900, 600), GREEN).save(folder / "c_a.jpg")
    (tmp_path / "c_b.jpg").write_bytes(b"not a photo")
    page = report(make_predictions(pairs[0]), tmp_path)
    source, target = page.pictures()
    assert colour_at(source, (200, 180)) == pytest.approx(GREEN, abs=3)
    assert colour_at(source, (130, 40)) == near(BLACK)  # in the pixels that the file states
    assert colour_at(target, (200, 180)) == pytest.approx(GREY, abs=3)
    assert "1 images were not found or not readable" in page.words


@pytest.mark.parametrize("category", ["cat", "../outside", "/"])
@pytest.mark.parametrize(
    "name",
    [
        *("../secret.png", "{outside}/secret.png", "x/../../secret.png", "..\\secret.png", "secret.png"),
        "x" * 5000,
    ],
)
def test_no_name_leads_out_of_the_data_set(
    name: str, category: str, make_pair: MakePair, make_predictions: Make, tmp_path: Path
) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root, outside):
        folder.mkdir()
    for path in (tmp_path / "secret.png", outside / "secret.png", root / "x" / ".." / "..\\secret.png"):
        (root / "x").mkdir(exist_ok=True)
        Image.new("RGB", (300, 200), GREEN).save(path)
    pair = make_pair(category=category, source_image=name.format(outside=outside))
    page = report(make_predictions(pair), root)
    assert colour_at(page.pictures()[0], (200, 180)) == pytest.approx(GREY, abs=3)
    assert "2 images were not found" in page.words


def test_without_images_it_says_so(
    pairs: list[PairPrediction], make_predictions: Make, tmp_path: Path
) -> None:
    assert "Points only: give the data set's folder (--root)" in report(make_predictions(*pairs)).words
    with pytest.raises(InputError, match="none: no such folder"):
        report(make_predictions(*pairs), tmp_path / "none")


def test_figures_and_fingerprint_are_on_the_page(
    pairs: list[PairPrediction], make_pair: MakePair, make_predictions: Make
) -> None:
    sure = make_pair("d", confidences=[0.55, 0.55, 0.55])
    page = report(make_predictions(sure, skipped=[("x", "why")], config='{"beta": 2}', training_images=["z"]))
    assert "100.0" in page.words and "Skipped pairs: 1 (1 x why)." in page.words
    assert '{"beta": 2}' in page.words and "leak-free pairs" in page.words
    assert "0.5 to 0.6" in page.words and "Expected calibration error: 45.0 percent." in page.words
    assert page.words.count("pck[threshold=image frame=square240") == 4  # head, category, points, calibration


def test_bars_are_as_long_as_their_value(make_pair: MakePair, make_predictions: Make) -> None:
    guess = [(30, 40), (130, 40), (30, 190)]
    page = report(make_predictions(make_pair(predicted_points=guess)))
    bars = [found["style"] for _, found in page.elements if found.get("class") == "percent"]
    assert set(bars) == {"--fraction: 0.667"} and len(bars) == 9  # three tables of three alphas


def test_names_cannot_break_the_page(make_pair: MakePair, make_predictions: Make) -> None:
    evil = "<script>\"&'</title>"
    page = report(make_predictions(make_pair(evil, category=evil), model=evil, skipped=[("x", evil)]))
    assert "script" not in {name for name, _ in page.elements}
    assert f"{evil} on pf-pascal, test" in page.words


def test_polygons_are_drawn_as_outlines(make_pair: MakePair, make_predictions: Make) -> None:
    square = np.array([(100, 50), (200, 50), (200, 150), (100, 150)])
    pair = make_pair(source_points=square, target_points=square, predicted_points=square + np.array([40, 0]))
    page = report(make_predictions(pair, dataset="caltech-101", kind="polygons"))
    source, target = page.pictures()
    assert colour_at(source, (150, 150)) == near("#ffffff")
    assert colour_at(target, (140, 100)) == colour_at(target, (240, 100)) == near(BLUE)  # also its last edge
    assert colour_at(target, (100, 100)) == near("#ffffff")
    assert "Ranked by IoU" in page.words and "PCK" not in page.words
