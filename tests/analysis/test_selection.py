"""Frequencies, numbers of layers and widths, all worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dhpf.model.checkpoint import save_head
from hypothesis import given
from hypothesis import strategies as st

from dhpf.analysis.selection import labels_for, quality, select
from dhpf.errors import InputError
from dhpf.evaluate.predictions import Predictions

from .conftest import of_layers

Make = Callable[..., Predictions]
RESNET101 = [64, *[256] * 3, *[512] * 4, *[1024] * 23, *[2048] * 3]  # He et al., table 1


def test_frequencies_by_category_and_group(make: Make) -> None:
    chosen = select(make([{0, 3}, {0}, {1, 2, 3}, {5}], ["cat", "cat", "dog", "bus"]), "m")
    categories, groups = chosen.categories, chosen.groups
    assert list(categories) == ["cat", "dog", "bus"] and list(groups) == ["animals", "vehicles"]
    assert chosen.frequency(categories["cat"])[:4].tolist() == [1, 0, 0, 0.5]
    np.testing.assert_allclose(chosen.frequency(groups["animals"])[:4], [2 / 3, 1 / 3, 1 / 3, 2 / 3])
    assert chosen.frequency()[[0, 3, 5, 6]].tolist() == [0.5, 0.5, 0.25, 0]
    assert chosen.counts.tolist() == [2, 1, 3, 1]
    assert chosen.histogram(groups["animals"])[:5].tolist() == [0, 1, 1, 1, 0]
    certainty = chosen.certainty(categories["cat"])
    assert certainty is not None
    np.testing.assert_allclose(certainty[:4], [0.9, 0.2, 0.2, 0.55])  # 0.9 where on, 0.2 where off


def test_widths_of_static_hyperpixels_are_the_papers(make: Make) -> None:
    """The paper says 6400 for HPF with ResNet-101, whose layers are these: 256 + 6 x 1024."""
    static = select(make([{2, 17, 21, 22, 25, 26, 28}], depth=101, gated=False), "hpf")
    assert static.dimensions.tolist() == [6400]
    assert (static.gated, static.rho, static.certainty()) == (False, 1, None)


def test_widths_after_transformations_are_an_eighth(make: Make) -> None:
    """By hand: 64 / 8 + 512 / 8 + 2 x 1024 / 8 = 8 + 64 + 256 = 328, and 2 x 2048 / 8 = 512."""
    chosen = select(make([{0, 7, 8, 20}, {31, 33}, range(34)], depth=101), "m")
    assert chosen.dimensions.tolist() == [328, 512, sum(RESNET101) // 8]
    assert list(chosen.channels) == RESNET101
    # Less than half of it, as mu = 0.5 would have it, and still the paper's 3962 would not be reached:
    # docs/analysis.md says what that means.
    assert int(chosen.widths.sum()) == 4072


@given(st.lists(st.sets(st.integers(0, 33)), min_size=1, max_size=5))
def test_width_is_the_sum_over_the_chosen_layers(sets: list[set[int]]) -> None:
    chosen = select(of_layers(sets, depth=101), "m")
    assert chosen.dimensions.tolist() == [sum(RESNET101[layer] // 8 for layer in layers) for layers in sets]
    assert chosen.counts.tolist() == [len(layers) for layers in sets]


@pytest.mark.parametrize(("kind", "width"), [("{}", 32), ('{"transform": false}', 256)])
def test_a_head_without_transformations_uses_blocks_as_they_are(
    make: Make, tmp_path: Path, kind: str, width: int
) -> None:
    head = tmp_path / "head.safetensors"
    save_head(head, {}, {"backbone": "resnet50-msra", "kind": kind})
    assert select(make([{1}], model=str(head)), "m").dimensions.tolist() == [width]


def test_what_cannot_be_analysed_is_one_sentence(make: Make, tmp_path: Path) -> None:
    one = make([{1}])
    with pytest.raises(InputError, match=r"p\.npz: does not say which layers .*another method"):
        select(replace(one, layers=None, gate_probabilities=None), "m", tmp_path / "p.npz")
    with pytest.raises(InputError, match="holds no pair and skips 1"):
        select(make([], skipped=[("a", "no image")]), "m")
    few = np.ones((1, 5), np.bool_)
    with pytest.raises(InputError, match=r"has 5 layers; wanted: 17 \(ResNet-50\) or 34 \(ResNet-101\)"):
        select(replace(one, layers=few, gate_probabilities=None), "m")


def test_quality_is_pck_of_the_default_protocol(make: Make) -> None:
    """The frame is a square of 240; 300 px become 240, so 24 px there are 30 px here."""
    assert quality(make([{1}], off=29.9)).value == 100
    assert quality(make([{1}], off=30.1)).value == 0
    unknown = quality(make([{1}], dataset="my photos"))
    assert unknown.value is None and "no threshold for data set 'my photos'" in unknown.reason


def test_labels_are_as_short_as_they_can_be() -> None:
    assert labels_for(["hpf-resnet50", "runs/a/strong.safetensors"]) == ["hpf-resnet50", "strong"]
    same_name = ["runs/mu0.3/best.safetensors", "runs/mu0.5/best.safetensors"]
    assert labels_for(same_name) == ["mu0.3/best", "mu0.5/best"]
    assert labels_for(["m", "m"], [Path("p/a.npz"), Path("p/b.npz")]) == ["a", "b"]
    assert labels_for(["m", "m"], [Path("p/a.npz"), Path("q/a.npz")]) == ["p/a.npz", "q/a.npz"]
