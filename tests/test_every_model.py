"""Every bundled model through every command that matches: annotate, match-many, evaluate and the page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from benchmarks.web_client import Client
from PIL import Image

import dhpf
from dhpf.backbones.weights import BACKBONES
from dhpf.data import make_mini
from dhpf.zoo import Card, method_of, models
from tests.conftest import Ran
from tests.web.conftest import Given, served

Command = Callable[..., Ran]
BUNDLED = [card for card in models().values() if BACKBONES[card.backbone].bundled]
SIZE = 112  # pixels: a multiple of what every backbone wants
EYES = [[88, 92], [168, 90]]  # of the cheetah


@pytest.fixture(scope="module", params=BUNDLED, ids=lambda card: card.name)
def small(request: pytest.FixtureRequest) -> dhpf.Matcher:
    """A bundled model on small inputs, loaded once."""
    card: Card = request.param
    return dhpf.load(card.name, SIZE)


@pytest.fixture
def loaded(small: dhpf.Matcher, monkeypatch: pytest.MonkeyPatch) -> dhpf.Matcher:
    """What commands get instead of loading it again."""
    monkeypatch.setattr("dhpf.matcher.load", lambda *_, **__: small)
    return small


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two photos: a cheetah and a cub."""
    folder = tmp_path_factory.mktemp("photos")
    for name in ("cheetah", "cheetah_cub"):
        with Image.open(dhpf.sample(name)) as photo:
            photo.save(folder / f"{name}.png")
    return folder


@pytest.fixture(scope="module")
def mini(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data")
    make_mini("pf-pascal", root)
    return root


def annotated(command: Command, photos: Path, out: Path, *options: object) -> np.ndarray:
    """The eyes of the cub, and their scores: (2, 3)."""
    points = " ".join(f"{x},{y}" for x, y in EYES)
    ran = command("annotate", photos / "cheetah.png", photos, "--points", points, "--out", out, *options)
    assert ran.code == 0, ran.err
    cub = json.loads(out.read_text())["annotations"][1]
    return np.column_stack([np.reshape(cub["keypoints"], (-1, 3))[:, :2], cub["scores"]])


@pytest.mark.usefixtures("loaded", "one_thread")
def test_annotating_with_kept_features(command: Command, photos: Path, tmp_path: Path) -> None:
    """Features on the disc are rounded to 16 bits; read again, they are the same."""
    plain = annotated(command, photos, tmp_path / "plain.json")
    kept, again = (
        annotated(command, photos, tmp_path / name, "--features", tmp_path / "features")
        for name in ("kept.json", "again.json")
    )
    np.testing.assert_array_equal(kept, again)
    np.testing.assert_allclose(kept[:, :2], plain[:, :2], atol=1)
    np.testing.assert_allclose(kept[:, 2], plain[:, 2], atol=0.01)


@pytest.mark.usefixtures("one_thread")
def test_matching_many_is_matching_each(
    command: Command, loaded: dhpf.Matcher, photos: Path, tmp_path: Path
) -> None:
    ran = command("match-many", photos, "--out", tmp_path)
    assert ran.code == 0 and ran.out.startswith("1 pairs matched, 0 kept from before, 0 failed"), ran.err
    [found] = [json.loads(path.read_text()) for path in tmp_path.glob("*.json")]
    match = loaded.match(photos / "cheetah.png", photos / "cheetah_cub.png")
    assert (found["model"], found["input_size"]) == (loaded.name, [SIZE, SIZE])
    np.testing.assert_array_equal(found["source_points"], np.round(match.keypoints(), 3))
    np.testing.assert_allclose(found["target_points"], match.transfer(match.keypoints()), atol=1e-3)


def test_evaluating(command: Command, loaded: dhpf.Matcher, mini: Path, tmp_path: Path) -> None:
    options = ["--dataset", "pf-pascal", "--root", mini, "--limit", 1, "--json", tmp_path / "score.json"]
    ran = command("evaluate", *options)
    assert ran.code == 0, ran.err
    score = json.loads((tmp_path / "score.json").read_text())
    assert (score["model"], score["pairs"]) == (loaded.name, 1)
    assert 0 <= score["pck"]["0.1"] <= 100


@pytest.fixture(scope="module")
def page(small: dhpf.Matcher) -> Iterator[str]:
    with served(Given(small), None) as address:
        yield address


def test_the_page(page: str, small: dhpf.Matcher) -> None:
    """Its points are those of the match; it offers heat maps of models that keep scores, and no others."""
    client = Client(page)
    matched = client.match(client.sample("cheetahs")).json
    where = f"/api/match/{matched['match']}"
    match = small.match(dhpf.sample("cheetah"), dhpf.sample("cheetah_cub"))
    assert matched["input_size"] == [SIZE, SIZE]
    assert client.send("POST", f"{where}/points", {"points": EYES}).json == match.to_dict(EYES)
    assert matched["has_heat"] == method_of(small.name).keeps_scores == (match.match_scores is not None)
    heat = client.send("POST", f"{where}/heat", {"points": EYES[:1]})
    drawn = client.send("POST", f"{where}/picture", {"view": "heat", "points": EYES[:1]})
    if matched["has_heat"]:
        np.testing.assert_allclose(heat.json["scores"], match.scores(EYES[0]), atol=1e-4)
        assert drawn.headers["Content-Type"] == "image/png"
    else:
        said = f"{small.name} keeps no scores for a heat map; choose another view"
        assert [(one.status, one.json["error"]) for one in (heat, drawn)] == [(400, said)] * 2
