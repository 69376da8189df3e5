"""Named models and their cards: what the package has, how a head is made ready for others."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import dhpf.data
from dhpf import InputError
from dhpf.backbones.state import dequantised
from dhpf.backbones.weights import BACKBONES
from dhpf.heads import head_content, load_head, read_head, read_metadata
from dhpf.methods import find_method
from dhpf.methods.dhpf import DHPF, DHPFConfig
from dhpf.settings import from_mapping
from dhpf.train.config import differences, make_config
from dhpf.train.recipe import read_recipe
from dhpf.zoo import (
    DEFAULT_MODEL,
    MODELS,
    UNTRAINED,
    Card,
    Cost,
    Training,
    find_head,
    intended_size,
    make_card,
    models,
    read_card,
    record_cost,
    record_figures,
    ship,
    training_images,
)
from tests.conftest import Ran

Command = Callable[..., Ran]
REPOSITORY = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.default_model


def test_the_default_is_first_and_works_without_a_download() -> None:
    assert next(iter(models())) == DEFAULT_MODEL
    assert models()[UNTRAINED].head is None
    assert all(BACKBONES[models()[name].backbone].bundled for name in (DEFAULT_MODEL, UNTRAINED))


@pytest.mark.parametrize("card", models().values(), ids=lambda card: card.name)
def test_every_card_describes_a_model_that_can_be_built(card: Card) -> None:
    assert read_card(MODELS / f"{card.name}.json") == card
    kind = find_method(card.method)
    with torch.device("meta"):
        kind(BACKBONES[card.backbone].build(), from_mapping(kind.Config, card.config, card.name))
    assert (card.head is None) == (card.training is None)


def test_every_head_in_the_package_has_a_card() -> None:
    heads = {path.stem for path in MODELS.glob("*.safetensors")}
    assert heads == {card.name for card in models().values() if card.training}


@pytest.mark.parametrize("name", [card.name for card in models().values() if card.training])
def test_cards_say_what_their_heads_say(name: str) -> None:
    card, metadata = models()[name], read_metadata(find_head(name))
    method = read_head(find_head(name))
    assert (card.method, card.backbone) == (metadata["method"], metadata["backbone"])
    assert from_mapping(method.Config, card.config, name) == method.config
    how = card.training
    assert how is not None
    assert (how.commit, how.hours) == (metadata["commit"], float(metadata["hours"]))
    assert how.held_out == json.loads(metadata["metrics"])
    trained = make_config(json.loads(metadata["recipe"]), name)
    recipe = read_recipe(how.recipe)
    apart = {"about", "run.cache_gb"}  # what it learned does not depend on these
    assert set(differences(asdict(trained), asdict(recipe))) <= apart  # it can be trained again
    assert (trained.model.backbone, trained.model.size) == (card.backbone, card.size)
    assert len(training_images(name) or ()) > 100


@pytest.mark.parametrize("card", models().values(), ids=lambda card: card.name)
def test_figures_of_cards_are_those_of_the_records_that_they_name(card: Card) -> None:
    for figures in card.figures.values():
        record = json.loads((REPOSITORY / figures["file"]).read_text())
        found = record["result"]
        assert (found["model"], figures["commit"]) == (card.name, record["commit"])
        assert figures["protocol"] == found["protocol"]["fingerprint"]
        metric = "masks" if "masks" in found else "pck"
        assert (figures["pairs"], figures[metric]) == (found["pairs"], found[metric])
        leak_free = found.get("leak_free")  # unless it is not known which images it has seen
        short = leak_free and {"pairs": leak_free["pairs"], metric: leak_free[metric]}
        assert figures.get("leak_free") == short
        assert Path(figures["file"]).name.startswith(found["dataset"])


FOLDER = "/home/someone/birds"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A head as 'dhpf train' writes it."""
    changes = [
        "model.size=[80,64]",
        f"model.start='{FOLDER}/start.safetensors'",
        f"data.root='{FOLDER}'",
        f"data.train=['pf-pascal/val','folder:{FOLDER}']",
        "run.cache_gb=17.0",
    ]
    config = read_recipe("resnet50-strong-plus", changes)
    torch.manual_seed(0)
    method = DHPF(BACKBONES["resnet50-msra"].build(), DHPFConfig(revote=True))
    with torch.device("cpu"):
        filled = DHPF(method.backbone, method.config)
    about = {
        "recipe": json.dumps(asdict(config)),
        "commit": "c0ffee1",
        "metrics": json.dumps({"epoch": 3, "val mean": 71.5}),
        "hours": "1.25",
        "training_images": "a.jpg\nb.jpg",
    }
    content = head_content(method, "resnet50-msra", filled.head().state_dict(), **about)
    path = tmp_path_factory.mktemp("run") / "best.safetensors"
    path.write_bytes(content)
    return path


def test_ship(trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "birds.safetensors"
    card = ship(trained, out, "for birds", "my photos")
    assert card == read_card(tmp_path / "birds.json")
    assert (card.name, card.summary, card.size) == ("birds", "for birds", (80, 64))
    assert card.config == {**asdict(DHPFConfig(revote=True)), "layers": []}
    assert asdict(card)["training"] == {
        "data": "my photos",
        "recipe": "resnet50-strong-plus",
        "commit": "c0ffee1",
        "hours": 1.25,
        "held_out": {"epoch": 3, "val mean": 71.5},
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == ["birds.json", "birds.safetensors"]
    before, after = load_file(trained), dequantised(load_file(out))
    assert before.keys() == after.keys()
    for key, value in before.items():
        matrix = value.flatten(1) if value.ndim > 1 else value[:, None]
        step = matrix.abs().amax(1, keepdim=True) / 127 if value.ndim > 1 else torch.zeros(len(value), 1)
        assert bool(((after[key].view_as(matrix) - matrix).abs() <= 0.501 * step).all()), key
    assert out.stat().st_size < 0.3 * trained.stat().st_size
    assert load_head(out).config == DHPFConfig(revote=True)
    assert intended_size(str(out)) == intended_size(str(trained)) == (80, 64)
    assert training_images(str(out)) == ("a.jpg", "b.jpg")


def test_what_is_shipped_has_no_trace_of_the_machine(trained: Path, tmp_path: Path) -> None:
    ship(trained, tmp_path / "birds.safetensors", "for birds", "my photos")
    for path in tmp_path.iterdir():
        assert b"someone" not in path.read_bytes()
        assert b"17.0" not in path.read_bytes()[:10_000]
    recipe = json.loads(read_metadata(tmp_path / "birds.safetensors")["recipe"])
    assert recipe["data"]["train"] == ["pf-pascal/val", "folder:birds"]
    assert recipe["model"]["start"] == "start.safetensors"
    again = ship(tmp_path / "birds.safetensors", tmp_path / "again.safetensors", "again", "the same")
    assert again.training is not None
    assert json.loads(read_metadata(tmp_path / "again.safetensors")["recipe"]) == recipe


def test_a_shipped_head_needs_no_card(trained: Path, tmp_path: Path, photo: Path) -> None:
    """What lies beside a head may be anything: the result of a match, say."""
    out = tmp_path / "birds.safetensors"
    ship(trained, out, "for birds", "my photos")
    found = dhpf.load(out).match(photo, photo)
    assert found.size == (80, 64)
    for content in (None, "not JSON", json.dumps(found.to_dict())):
        out.with_suffix(".json").unlink(missing_ok=True)
        if content is not None:
            out.with_suffix(".json").write_text(content)
        assert dhpf.load(out).size == (80, 64)


def changed(trained: Path, out: Path, state: dict[str, Tensor] | None = None, **metadata: Any) -> Path:
    """A copy with other weights, or that says something else of itself."""
    said = {**read_metadata(trained), **metadata}
    save_file(state or load_file(trained), out, {key: value for key, value in said.items() if value})
    return out


UNFIT = {
    "imported": ({"recipe": ""}, "does not say how it was trained; ship heads that 'dhpf train' wrote"),
    "no JSON": ({"recipe": "{"}, "its recipe is missing or not valid JSON"),
    "not a recipe": ({"recipe": "[]"}, "its recipe is not one of 'dhpf train'; train it again"),
    "not a whole recipe": ({"recipe": '{"model": {}}'}, "its recipe is not one of 'dhpf train'"),
    "no commit": ({"commit": ""}, "training.commit = None; wanted text"),
    "no hours": ({"hours": ""}, "its hours is missing or not valid JSON"),
    "endless hours": ({"hours": "1e999"}, "training.hours = inf; wanted a finite number"),
    "no number": ({"metrics": '{"pck": NaN}'}, "a number is infinite or none; wanted finite ones"),
    "no figures": ({"metrics": "3"}, "training.held_out = 3; wanted a table"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_heads_that_cannot_be_shipped(trained: Path, tmp_path: Path, case: str) -> None:
    metadata, complaint = UNFIT[case]
    head = changed(trained, tmp_path / "head.safetensors", **metadata)
    with pytest.raises(InputError, match=rf"^{head}.*{complaint}"):
        ship(head, tmp_path / "out.safetensors", "x", "y")
    assert [path.name for path in tmp_path.iterdir()] == ["head.safetensors"]


def test_a_head_that_computes_no_numbers_is_not_shipped(trained: Path, tmp_path: Path) -> None:
    state = load_file(trained)
    state["transforms.2.1.running_var"][3] = -2e-5  # a variance
    head = changed(trained, tmp_path / "best.safetensors", state)
    with pytest.raises(InputError, match=r"best\.safetensors computes values that are"):
        ship(head, tmp_path / "out.safetensors", "x", "y")


def test_ship_writes_to_files_of_its_own(trained: Path, tmp_path: Path) -> None:
    head = changed(trained, tmp_path / "head.safetensors")
    content = head.read_bytes()
    for out, complaint in (
        (tmp_path / "head.pt", r"the output must end in \.safetensors"),
        (head, r"is an input; give the output another name"),
        (tmp_path / "none" / "out.safetensors", r"there is no folder"),
    ):
        with pytest.raises(InputError, match=complaint):
            ship(head, out, "x", "y")
    (tmp_path / "link.safetensors").symlink_to(head)
    with pytest.raises(InputError, match=r"is an input"):
        ship(head, tmp_path / "link.safetensors", "x", "y")
    (tmp_path / "out.json").mkdir()
    with pytest.raises(InputError, match=r"out\.json: it is a folder"):
        ship(head, tmp_path / "out.safetensors", "x", "y")
    assert head.read_bytes() == content
    assert not (tmp_path / "out.safetensors").exists()


CARD: dict[str, Any] = {
    "name": "a",
    "summary": "b",
    "method": "hpf",
    "backbone": "resnet50",
    "size": [64, 48],
}


@pytest.fixture
def card(tmp_path: Path) -> Path:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(CARD))
    return path


def test_figures_are_added_to_a_card(card: Path) -> None:
    record_figures(card, "pf-pascal/test", {"pck": {"0.1": 80.0}, "pairs": 299})
    record_figures(card, "pf-willow/test", {"pck": {"0.1": 70.0}})
    record_figures(card, "pf-pascal/test", {"pck": {"0.1": 81.5}})  # measured again
    assert read_card(card).figures == {
        "pf-pascal/test": {"pck": {"0.1": 81.5}},
        "pf-willow/test": {"pck": {"0.1": 70.0}},
    }
    assert read_card(card).size == (64, 48)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_card_never_holds_what_json_cannot(card: Path, value: float) -> None:
    before = card.read_bytes()
    with pytest.raises(InputError, match=r"a\.json: a number is infinite or none; wanted finite ones"):
        record_figures(card, "test", {"pck": {"0.1": value}})
    assert card.read_bytes() == before


NO_CARDS = {
    "empty": ("", "is not valid JSON"),
    "no JSON": ("{name: a}", "is not valid JSON"),
    "no text": ("\0\1", "is not text in UTF-8; wanted a model's card"),
    "a list": ("[]", r"the content = \[\]; wanted a table of settings"),
    "nested too deep": ("[" * 10**5, "nests too deeply or has too long a number for a model's card"),
    "without a name": ('{"summary": "b"}', "name is missing"),
    "a wrong size": (
        json.dumps(CARD | {"size": "240"}),
        "size = '240'; wanted 2 values, each a whole number",
    ),
    "wrong figures": (json.dumps(CARD | {"figures": [1]}), r"figures = \[1\]; wanted a table"),
    "wrong training": (json.dumps(CARD | {"training": {"data": "x"}}), "training.recipe is missing"),
    "a path": (json.dumps(CARD | {"path": "/etc"}), "unknown key in .*a.json 'path'"),
    "NaN": (json.dumps(CARD | {"figures": {"x": {"y": float("nan")}}}), "a number is infinite or none"),
    "beyond floats": (
        json.dumps(CARD)[:-1] + ', "config": {"epsilon": 1e999}}',
        "a number is infinite or none",
    ),
}


@pytest.mark.parametrize("case", NO_CARDS)
def test_files_that_are_no_cards(tmp_path: Path, case: str) -> None:
    content, complaint = NO_CARDS[case]
    path = tmp_path / "a.json"
    path.write_bytes(content.encode())
    with pytest.raises(InputError, match=complaint) as raised:
        read_card(path)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_cards_that_are_no_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no such model's card"):
        read_card(tmp_path / "none.json")
    with pytest.raises(InputError, match=r"is a folder; wanted a model's card"):
        read_card(tmp_path)
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(InputError, match=r"is a device or a pipe; wanted a model's card"):
        read_card(tmp_path / "pipe.json")
    with (tmp_path / "large.json").open("wb") as stream:
        stream.truncate(2**40)
    with pytest.raises(InputError, match=r"is too large for a model's card"):
        read_card(tmp_path / "large.json")


def test_what_a_model_has_learned_from() -> None:
    assert training_images("hpf-resnet50") == ()  # nothing
    assert len(training_images("hpf-resnet50-searched") or ()) == 169  # its layers were searched on them
    assert training_images("a model made in Python") is None


def test_a_model_without_a_head_is_nothing_to_begin_with() -> None:
    with pytest.raises(
        InputError, match=r"hpf-resnet50 has no trained head; begin with a model that has one"
    ):
        find_head("hpf-resnet50")
    with pytest.raises(InputError, match=r"unknown model 'banana'; known: "):
        find_head("banana")


def test_the_command_tells_all_about_a_model(command: Command) -> None:
    for name, one in models().items():
        ran = command("models", name)
        assert (ran.code, ran.err) == (0, "")
        lines = ran.out.splitlines()
        assert f"what      {one.summary}" in lines
        assert f"method    {one.method}" in lines
        assert any(line.startswith("layers ") for line in lines) == (one.backbone != "pixels")
        assert "input     {} x {} pixels".format(*one.size) in lines
        assert "None" not in ran.out
    how = models()[DEFAULT_MODEL].training
    assert how is not None
    out = command("models", DEFAULT_MODEL).out
    assert f"trained   {how.data}; recipe {how.recipe}, commit {how.commit}, {how.hours:.1f} hours\n" in out
    assert "layers    11, for every pair\n" in command("models", "nearest-dinov2-small").out  # the last
    refused = command("models", "dinov2-smal")
    assert refused.code == 2 and "did you mean 'dinov2-small'?" in refused.err


def test_the_command_lists_what_models_reach_and_cost(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    pck = {"0.05": 61.5237, "0.1": 84.2818}
    figures = {
        "pf-pascal": {
            "pck": pck,
            "pairs": 299,
            "leak_free": {"pairs": 90, "pck": {"0.05": 50, "0.1": 70.06}},
        },
        "pf-willow": {"pck": {"0.1": 99}, "pairs": 900, "leak_free": {"pairs": 9, "pck": {"0.1": 98}}},
        "spair-71k": {"pck": {"0.1": 33.333}, "pairs": 50},  # which of them are unseen, nobody knows
        "caltech-101": {"masks": {"LT-ACC": 0.85311, "IoU": 0.6}},
    }
    cost = asdict(Cost(0.081, 0.01, 412, "Z80", "c0"))
    changes = {"summary": "for [birds] [/x]", "config": {"layer": -1}, "figures": figures, "cost": cost}
    cards = {"long-name": make_card(CARD | changes, ""), "b": make_card(CARD | {"name": "b"}, "")}
    monkeypatch.setattr("dhpf.zoo.models", lambda: cards)
    title, first, second, *_ = command("models").out.splitlines()
    assert title.split() == ["model", "PF-PASCAL", "PF-WILLOW", "SPair-71k", "seconds", "MB", "what"]
    assert first.split()[1:4] == ["70.1", "0.08", "412"]  # leak-free; too few pairs of PF-WILLOW
    assert first.endswith("  for [birds] [/x]")
    for value, column in (("70.1", "PF-PASCAL"), ("0.08", "seconds"), ("412", "MB")):
        assert first.index(value) + len(value) == title.index(column) + len(column)
    assert not any(letter.isdigit() for letter in second)
    for hours, said in ((0.36, "0.4 hours"), (0.06, "3.6 minutes"), (0.0, "less than a minute")):
        held_out = {"epoch": 2.0, "pck": 99.0, "val spair-71k/trn": 59.94, "val mean": 59.94}
        training = asdict(Training("birds", "r", "c1", hours, held_out))
        cards["b"] = make_card(CARD | {"training": training}, "")
        out = command("models", "b").out
        assert f"trained   birds; recipe r, commit c1, {said}\n" in out
        assert "validated spair-71k/trn 59.9; percent at 0.1 in the kept epoch; " in out
    out = command("models", "long-name").out
    assert "what      for [birds] [/x]\n" in out
    assert "layers    16, for every pair\n" in out
    assert "cost      0.08 seconds for two new photos, 0.01 if known, 412 MB; Z80; commit c0\n" in out
    free = "leak-free: pairs 90, 50.0 / 70.1 at 0.05 / 0.1"
    assert f"measured  pf-pascal: 61.5 / 84.3 at 0.05 / 0.1; pairs 299; {free}\n" in out
    assert "measured  caltech-101: masks: LT-ACC 0.8531, IoU 0.6\n" in out


def test_a_cost_is_recorded_in_the_card(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(make_card(CARD, "").text())
    cost = Cost(1.5, 0.25, 640, "Z80, 1 cores", "c0ffee")
    record_cost(path, cost)
    assert read_card(path) == replace(make_card(CARD, ""), cost=cost)


def test_the_command_ships(command: Command, trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "[birds].safetensors"
    ran = command("ship", trained, out, "--summary", "for birds", "--data", "my photos")
    assert (ran.code, ran.err) == (0, "")
    card_file = tmp_path / "[birds].json"
    assert ran.out == f"wrote {out} and its card {card_file}; use it with: dhpf match A B --model {out}\n"
    assert read_card(card_file).summary == "for birds"
    refused = command("ship", tmp_path / "[none].safetensors", out, "--summary", "x", "--data", "y")
    assert refused.code == 2
    assert refused.err == f"dhpf: error: no such model file: {tmp_path}/[none].safetensors\n"
    unsaid = command("ship", trained, out)
    assert unsaid.code == 2
    assert "--summary" in unsaid.err


@pytest.mark.parametrize(
    "arguments", ["match {0} {0}", "predict --dataset pf-pascal --root {1} --out {1}/p.npz"]
)
def test_an_empty_name_is_no_model(command: Command, photo: Path, arguments: str) -> None:
    folder = photo.parent / "mini"
    dhpf.data.make_mini("pf-pascal", folder)
    ran = command(*arguments.format(photo, folder).split(), "--model", "")
    assert ran.code == 2
    assert len(ran.err.splitlines()) == 1
    assert ran.err.startswith("dhpf: error: ")
