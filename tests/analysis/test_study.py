"""What is said of a model: its groups, its name, its accuracy, why something is missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dhpf.analysis.kinds import KIND_OF, kind_of
from dhpf.analysis.study import study_files
from dhpf.data.pf_pascal import CLASSES
from dhpf.errors import InputError
from dhpf.evaluate.predictions import Predictions

Make = Callable[..., Predictions]


def test_kinds_of_pascal_and_willow() -> None:
    willow = ["car(G)", "duck(S)", "motorbike(M)", "winebottle(woC)"]
    assert [kind_of(name) for name in willow] == ["vehicles", "animals", "vehicles", "man-made"]
    assert set(KIND_OF) == {*CLASSES, "duck", "winebottle"}
    assert (kind_of("Car"), kind_of("pottedplant"), kind_of("okapi")) == ("vehicles", "man-made", "other")


def test_groups_are_categories_by_kind_then_all(make: Make, tmp_path: Path) -> None:
    categories = ["sofa", "unicorn", "dog", "bus", "cat", "cat", "okapi"]
    make([{1}] * 7, categories).save(tmp_path / "p.npz")
    (model,) = study_files([tmp_path / "p.npz"])
    found = [(kind, name, int(members.sum())) for kind, name, members in model.groups()]
    assert found == [
        *(("animals", "cat", 2), ("animals", "dog", 1), ("animals", "all animals", 3)),
        *(("vehicles", "bus", 1), ("man-made", "sofa", 1)),  # one category needs no sum
        *(("other", "okapi", 1), ("other", "unicorn", 1), ("all", "all pairs", 7)),
    ]


@pytest.mark.parametrize(
    ("models", "labels"),
    [
        (["hpf-resnet50", "runs/a/strong.safetensors"], ["hpf-resnet50", "strong"]),
        (["a/best.safetensors", "b/best.safetensors", "m"], ["0.npz", "1.npz", "m"]),
    ],
)
def test_labels_are_short_and_differ(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, models: list[str], labels: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for number, model in enumerate(models):
        make([{1}], model=model).save(f"{number}.npz")
    studied = study_files([Path(f"{number}.npz") for number in range(len(models))])
    assert [model.label for model in studied] == labels


def test_accuracy_is_pck_of_the_default_protocol(make: Make, tmp_path: Path) -> None:
    """The frame is a square of 240; 300 px become 240, so 24 px there are 30 px here."""
    for name, off, dataset in (("a", 29.9, "pf-pascal"), ("b", 30.1, "pf-pascal"), ("c", 0, "my photos")):
        make([{1}], model=name, off=off, dataset=dataset).save(tmp_path / f"{name}.npz")
    near, far, unknown = study_files([tmp_path / f"{name}.npz" for name in "abc"])
    assert near.accuracy is not None and near.accuracy.values == (100,)
    assert far.accuracy is not None and far.accuracy.values == (0,)
    assert unknown.accuracy is None
    (note,) = unknown.notes()
    assert note.startswith("c: no PCK@0.1; ") and "no threshold for data set 'my photos'" in note


def test_a_model_that_chooses_no_layers_is_left_out_and_named(make: Make, tmp_path: Path) -> None:
    replace(make([{1}], model="nearest"), layers=None, gate_probabilities=None).save(tmp_path / "n.npz")
    make([{1}], model="gated").save(tmp_path / "g.npz")
    nearest, gated = study_files([tmp_path / "n.npz", tmp_path / "g.npz"])
    assert list(nearest.notes()) == ["nearest chooses no layers; figures about layers leave it out."]
    assert (nearest.layers, list(gated.notes())) == (None, [])
    with pytest.raises(InputError, match=r"n\.npz: nearest chooses no layers; there is nothing to draw"):
        study_files([tmp_path / "n.npz"])


def test_skipped_pairs_are_said(make: Make, tmp_path: Path) -> None:
    make([{1}], skipped=[("a", "no image")]).save(tmp_path / "p.npz")
    (model,) = study_files([tmp_path / "p.npz"])
    assert list(model.notes()) == ["some: 1 pairs were skipped when predicting."]
    make([], skipped=[("a", "no image")]).save(tmp_path / "p.npz")
    with pytest.raises(InputError, match="holds no pair and skips 1"):
        study_files([tmp_path / "p.npz"])
