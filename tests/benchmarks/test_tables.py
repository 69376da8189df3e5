"""What README and cards say of a model: the same, and what the files of results say."""

from __future__ import annotations

import re

from benchmarks.evaluate import RESULTS, card_figures
from benchmarks.record import RESULTS as FOLDER
from benchmarks.record import ROOT

from dhpf.cli.models import COLUMNS, unseen
from dhpf.zoo import models


def test_only_pairs_of_unseen_images_count() -> None:
    few, enough = ({"pairs": pairs, "pck": {"0.1": 70.0}} for pairs in (29, 30))
    assert unseen({"pck": {"0.1": 80.0}, "pairs": 299, "leak_free": enough}) == enough
    for unknown in (None, {"pairs": 0}, few):
        assert unseen({"pck": {"0.1": 80.0}, "pairs": 299, "leak_free": unknown}) is None
    assert unseen(None) is unseen({"pck": {"0.1": 80.0}, "pairs": 299}) is None


def test_a_card_has_the_short_form_of_a_file() -> None:
    result = {
        "dataset": "pf-willow",
        "split": "test",
        "protocol": {"name": "dhpf", "fingerprint": "pck[x]"},
        "pairs": 900,
        "pck": {"0.1": 65.4},
        "leak_free": {"training_images": 3, "pairs": 800, "points": 8000, "pck": {"0.1": 64.2}},
        "average_layers": 8.5,
    }
    short = {
        "pck": {"0.1": 65.4},
        "pairs": 900,
        "leak_free": {"pairs": 800, "pck": {"0.1": 64.2}},
        "split": "test",
        "protocol": "pck[x]",
        "layers": 8.5,
        "commit": "c0ffee1",
        "file": "benchmarks/results/pf-willow_a.json",
    }
    assert card_figures({"commit": "c0ffee1", "result": result}, "pf-willow_a.json") == short
    unknown = {**result, "leak_free": None, "average_layers": None}
    left = {key: value for key, value in short.items() if key not in ("leak_free", "layers")}
    assert card_figures({"commit": "c0ffee1", "result": unknown}, "pf-willow_a.json") == left


def test_every_file_of_results_is_in_its_card() -> None:
    for name, card in models().items():
        measured = {
            f"{one.dataset}{one.ending}" for one in RESULTS if (FOLDER / f"{one.name(name)}.json").exists()
        }
        assert measured == {*card.figures}, f"{name}: python -m benchmarks.tables"


def test_readme_and_cards_agree() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)`[^|]*\| ([\d.]*) \| ([\d.]*) \| ([\d.]*) \|", readme, re.MULTILINE)
    assert len(rows) > 10
    for name, *said in rows:
        found = (unseen(models()[name].figures.get(key)) for key in COLUMNS.values())
        assert said == ["" if one is None else f"{one['pck']['0.1']:.1f}" for one in found], name
