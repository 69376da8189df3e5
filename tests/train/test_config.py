"""Recipes: what is accepted, and what is said of the rest."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from dhpf import InputError
from dhpf.methods import find_method
from dhpf.settings import all_keys
from dhpf.train.config import (
    CHOICES,
    RANGES,
    REMOVED,
    RENAMED,
    Config,
    config_of,
    differences,
    make_config,
)
from dhpf.train.recipe import RECIPES, read_recipe

DEFAULTS: Config = config_of(find_method("dhpf"))()


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write(text: str, name: str = "recipe.toml") -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write


def refusal(path: Path, *changes: str) -> str:
    with pytest.raises(InputError) as error:
        read_recipe(path, changes)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_an_empty_recipe_is_the_defaults(write):
    assert read_recipe(write("")) == DEFAULTS


def test_the_defaults_survive_a_round_trip():
    written = json.loads(json.dumps(asdict(DEFAULTS)))
    assert make_config(written, "again") == DEFAULTS
    assert differences(written, json.loads(json.dumps(asdict(make_config({}, "x"))))) == []


def test_every_default_is_a_choice_and_in_range():
    defaults = asdict(DEFAULTS)
    for key in [*CHOICES, *RANGES]:
        section, name = key.split(".")
        assert name in defaults[section]


@pytest.mark.parametrize("path", sorted(RECIPES.rglob("*.toml")), ids=lambda p: p.stem)
def test_shipped_recipes_parse(path):
    config = read_recipe(path)
    assert config.about
    assert config.name == ("ablation" if path.stem == "base" else config.name)
    assert path.stem in ("base", config.name.removeprefix("ablation-"))


def test_ablation_rows_differ_from_the_method_in_what_they_say():
    method = asdict(read_recipe(RECIPES / "ablation" / "mu-0.5.toml"))
    rows = {p.stem: asdict(read_recipe(p)) for p in (RECIPES / "ablation").glob("*.toml")}
    changed = {name: sorted(set(differences(method, row)) - {"name", "about"}) for name, row in rows.items()}
    assert changed == {
        "base": [],
        "mu-0.5": [],
        "mu-0.4": ["loss.mu"],
        "mu-0.3": ["loss.mu"],
        "all-layers": ["head.gating", "loss.select"],
        "all-layers-without-hough": ["head.gating", "head.hough", "loss.select"],
        "without-transform": ["head.transform"],
        "without-transform-and-hough": ["head.hough", "head.transform"],
        "without-hough": ["head.hough"],
        "without-omega": ["loss.omega"],
        "without-select": ["loss.select"],
        "sigmoid": ["head.gating", "loss.select"],
        "sigmoid-mu": ["head.gating"],
        "sigmoid-l1": ["head.gating", "loss.l1", "loss.select"],
        "squared": ["head.gate_power"],
    }


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("[loss]\nmi = 0.3", "loss.mu"),
        ("mu = 0.3", "loss.mu"),  # the right name, the wrong place
        ("[run]\nrate = 0.1", "optimiser.rate"),
        ("[optimizer]\nrate = 0.1", "optimiser"),
        ("[data]\nhold_out = 0.1", "data.holdout"),
        ("[model.size]\nwidth = 3", "model.size"),
    ],
)
def test_unknown_keys_name_the_nearest(write, given, meant):
    assert meant in refusal(write(given))


@pytest.mark.parametrize(
    ("change", "meant"), [("loss.mi=0.3", "loss.mu"), ("mu=0.3", "loss.mu"), ("Loss.mu=1", "loss")]
)
def test_unknown_keys_on_the_command_line_too(write, change, meant):
    message = refusal(write(""), change)
    assert f"'{change.partition('=')[0].partition('.')[0]}" in message
    assert f"did you mean '{meant}'" in message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[loss]\nomega = 1", "loss.omega = 1; wanted true or false"),
        ("[loss]\nmu = true", "loss.mu = True; wanted a number"),
        ("[loss]\nmu = '0.3'", "loss.mu = '0.3'; wanted a number"),
        ("[run]\nepochs = 2.0", "run.epochs = 2.0; wanted a whole number"),
        ("[run]\nepochs = true", "run.epochs = True; wanted a whole number"),
        ("name = 3", "name = 3; wanted text"),
        ("loss = 3", "loss = 3; wanted a table of settings"),
        ("[model]\nsize = 240", "model.size = 240; wanted 2 values, each a whole number"),
        ("[model]\nsize = [240]", "model.size = [240]; wanted 2 values, each a whole number"),
        ("[model]\nsize = [240, 240.0]", "wanted 2 values, each a whole number"),
        (
            "[data]\ntrain = 'pf-pascal/val'",
            "data.train = 'pf-pascal/val'; wanted a list of values, each text",
        ),
        ("[data]\ntrain = [1]", "wanted a list of values, each text"),
        ("[data]\ntrain = []", "data.train is empty"),
        ("[loss]\nmu = 1.5", "loss.mu = 1.5; wanted from 0 to 1"),
        ("[loss]\nmu = nan", "loss.mu = nan; wanted a finite number"),
        ("[run]\ncache_gb = inf", "run.cache_gb = inf; wanted a finite number"),
        ("[loss]\nl1 = -1", "loss.l1 = -1; wanted at least 0"),
        ("[run]\nbatch = 0", "run.batch = 0; wanted from 1"),
        ("[run]\nseed = -1", "run.seed = -1; wanted from 0"),
        ("[run]\nepochs = 1" + 400 * "0", "wanted from 1 to 1000000000"),
        ("[run]\ncache_gb = 1e300", "run.cache_gb = 1e+300; wanted from 0"),
        ("[optimiser]\nrate = -1", "wanted from 0 to 1000"),
        ("[optimiser]\nrate = 1e30", "optimiser.rate = 1e+30; wanted from 0 to 1000"),
        ("[optimiser]\nkind = 'adam'", "optimiser.kind = 'adam'; wanted: adamw or sgd"),
        ("[model]\ninit = 'zero'", "model.init = 'zero'; wanted: random or principal"),
        ("[model]\nmethod = 'nearest'", "model.method = 'nearest' has nothing to train"),
        ("[head]\ngating = 'gumble'", "head.gating = 'gumble'; wanted: gumbel, sigmoid, none"),
        ("[head]\ngate_power = 3", "head.gate_power = 3; wanted: 1 or 2"),
        ("[head]\ngating = 'none'\ntransform = false", "nothing to learn"),
        ("[head]\nrevote = true\nhough = 'none'", "it wants votes: hough = exact or published"),
        ("x = " + 20_000 * "[" + 20_000 * "]", "is not TOML"),
        ("x = " + 5000 * "9", "is not TOML"),
        ("[loss\nmu = 1", "is not TOML"),
        ("[loss]\nmu = 1\nmu = 2", "is not TOML"),
    ],
)
def test_wrong_values(write, text, says):
    path = write(text)
    message = refusal(path)
    assert says in message
    assert str(path) in message


def test_a_whole_number_may_stand_for_a_float(write):
    mu = read_recipe(write("[loss]\nmu = 1")).loss.mu
    assert mu == 1.0 and isinstance(mu, float)


def test_changes_read_as_toml_and_bare_words_as_text(write):
    config = read_recipe(
        write("[loss]\nmu = 0.5\ntarget_sigma = 2.0"),
        [
            "loss.mu = 0.3",
            "run.epochs=3",
            "optimiser.rate=3e-2",
            "loss.omega=false",
            "model.size=[96, 64]",
            'data.train=["pf-pascal/trn", "folder:/photos"]',
            "head.gating=sigmoid",
            'name="two words"',
            "data.root=/data/a=b",
            "about=",
        ],
    )
    assert (config.loss.mu, config.loss.target_sigma, config.run.epochs) == (0.3, 2.0, 3)
    assert (config.optimiser.rate, config.loss.omega, config.model.size) == (0.03, False, (96, 64))
    assert config.data.train == ("pf-pascal/trn", "folder:/photos")
    assert (config.head.gating, config.name) == ("sigmoid", "two words")
    assert (config.data.root, config.about) == ("/data/a=b", "")


@pytest.mark.parametrize("change", ["loss.mu", "=3", "name.first=3", "loss.mu.deep=1", "loss=3"])
def test_changes_that_make_no_sense(write, change):
    path = write('name = "x"\n[loss]\nmu = 0.5')
    assert change.partition("=")[0].partition(".")[0] in refusal(path, change)


def test_files_that_cannot_be_read(tmp_path):
    assert "no such recipe" in refusal(tmp_path / "absent.toml")
    assert str(tmp_path) in refusal(tmp_path)
    (tmp_path / "bytes.toml").write_bytes(b"name = '\xff\xfe'")
    assert "bytes.toml is not text in UTF-8; wanted a recipe" in refusal(tmp_path / "bytes.toml")


def test_a_recipe_extends_another_from_its_own_folder(write):
    write('name = "base"\n[loss]\nmu = 0.3\ntarget_sigma = 1.0\n[run]\nepochs = 3', "below/base.toml")
    write('extends = "base.toml"\nname = "middle"\n[loss]\nmu = 0.4', "below/middle.toml")
    config = read_recipe(write('extends = "below/middle.toml"\n[run]\nbatch = 2'), ["run.seed=7"])
    assert (config.name, config.loss.mu, config.loss.target_sigma) == ("middle", 0.4, 1.0)
    assert (config.run.epochs, config.run.batch, config.run.seed) == (3, 2, 7)


def test_extending_in_a_circle_or_nothing(write):
    one = write('extends = "two.toml"', "one.toml")
    write('extends = "one.toml"', "two.toml")
    assert "extends itself" in refusal(one)
    assert "no such recipe" in refusal(write('extends = "absent.toml"'))
    assert "wanted the name of a recipe" in refusal(write("extends = 3"))
    assert "did you mean 'resnet50-weak'" in refusal(write('extends = "resnet50-week"'))


def test_a_recipe_extends_one_of_the_package_by_name(write):
    config = read_recipe(write('extends = "resnet50-weak"\nname = "mine"\n[loss]\nmu = 0.4'))
    theirs = read_recipe("resnet50-weak")
    assert differences(asdict(theirs), asdict(config)) == ["loss.mu", "name"]
    assert (config.loss.objective, config.loss.mu) == ("weak", 0.4)


def test_an_error_in_the_extended_recipe_names_that_file(write):
    base = write("[loss]\nmi = 3", "base.toml")
    assert str(base) in refusal(write('extends = "base.toml"'))


def test_recipes_of_the_package_are_found_by_name_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in RECIPES.rglob("*.toml"):
        name = path.relative_to(RECIPES).with_suffix("").as_posix()
        assert read_recipe(name) == read_recipe(path)
    (tmp_path / "resnet50-strong").mkdir()  # a run of that name is not the recipe
    assert read_recipe("resnet50-strong").name == "resnet50-strong"
    assert read_recipe("ablation/mu-0.3").loss.mu == 0.3


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("resnet50-stronk", "unknown recipe 'resnet50-stronk': did you mean 'resnet50-strong'?"),
        ("mu-0.3", "did you mean 'ablation/mu-0.3'?"),
        ("../recipes/smoke", "unknown recipe '../recipes/smoke'"),
        ("absent.toml", "no such recipe: absent.toml"),
        ("", "unknown recipe ''"),
    ],
)
def test_a_name_that_is_no_recipe(name, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as error:
        read_recipe(name)
    assert says in str(error.value)


@pytest.mark.parametrize("key", RENAMED)
def test_keys_of_older_recipes_name_the_new_one(write, key):
    new = RENAMED[key].partition(",")[0]
    assert new in all_keys(type(DEFAULTS))
    section, name = key.split(".")
    message = refusal(write(f"[{section}]\n{name} = true"))
    assert f"{key} is now {new}" in message
    assert message == refusal(write(""), f"{key}=true")


@pytest.mark.parametrize("key", REMOVED)
def test_keys_that_are_gone_say_why(write, key):
    section, name = key.split(".")
    assert f"{key} is gone, leave it out: {REMOVED[key]}" in refusal(write(f"[{section}]\n{name} = true"))


def test_pairs_of_older_recipes_name_the_new_ones(write):
    path = write("[data]\ntrain = ['pf-pascal/val', 'alike:spair-71k/trn']")
    assert "alike:spair-71k/trn is now pseudo:spair-71k/trn" in refusal(path)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "/x", "a/b", "a\\b", ".hidden", "-x", "a\nb", "a\0b", "C:x", "x/../../y"]
)
def test_a_name_that_would_leave_the_folder_of_runs(write, name):
    assert f"name = {name!r}; wanted a plain name" in refusal(write(f"name = {json.dumps(name)}"))


def test_differences_are_named_by_their_keys():
    one = asdict(DEFAULTS)
    other = asdict(make_config({"loss": {"mu": 0.3}, "name": "other", "run": {"seed": 1}}, "x"))
    assert differences(one, other) == ["loss.mu", "name", "run.seed"]
