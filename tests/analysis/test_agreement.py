"""How alike two models choose: small sets by hand, NumPy's correlation, and what must always hold."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from dhpf.analysis.agreement import Agreement, Incomparable, agreements, compare, correlations, jaccard
from dhpf.analysis.selection import select
from dhpf.evaluate.predictions import Predictions

Make = Callable[..., Predictions]
CHOICES = arrays(np.bool_, st.tuples(st.integers(1, 12), st.just(6)))


def test_by_hand_and_whatever_the_order_of_the_pairs(make: Make) -> None:
    one = select(make([{0, 1}, {2}, {0, 5}], ids=["x", "y", "z"]), "one")
    two = select(make([{3}, {0, 5, 6, 7}, {1, 2}], ids=["y", "z", "x"]), "two")
    found = compare(one, two)  # x: 1 of 3, y: 0 of 2, z: 2 of 4
    assert isinstance(found, Agreement)
    np.testing.assert_allclose(found.jaccard, [1 / 3, 0, 1 / 2])
    np.testing.assert_allclose(found.same[[0, 1, 2, 5, 8]], [2 / 3, 1, 1 / 3, 1, 1])
    assert found.pairs == 3
    # Layer 1: on for x in both, off else: 1. Layer 2: (off, on, off) and (on, off, off): -1/2.
    np.testing.assert_allclose(found.correlation[[1, 2]], [1, -0.5])
    assert np.isnan(found.correlation[[3, 8]]).all()  # one never has layer 3, neither ever has layer 8


@given(st.data())
def test_correlation_is_pearsons(data: st.DataObject) -> None:
    a = data.draw(CHOICES)
    b = data.draw(arrays(np.bool_, a.shape))
    for layer, value in enumerate(correlations(a, b)):
        if len(set(a[:, layer])) == 1 or len(set(b[:, layer])) == 1:
            assert np.isnan(value)
        else:
            np.testing.assert_allclose(value, np.corrcoef(a[:, layer], b[:, layer])[0, 1], atol=1e-12)


@given(CHOICES)
def test_jaccard_of_the_same_is_1_and_of_opposites_0(a: NDArray[np.bool_]) -> None:
    assert (jaccard(a, a) == 1).all()
    assert (jaccard(a, ~a) == 0).all()
    other = np.roll(a, 1, axis=1)
    assert (jaccard(a, other) == jaccard(other, a)).all()


def test_only_what_is_comparable_is_compared(make: Make) -> None:
    pascal = select(make([{0}]), "pascal")
    willow = select(make([{0}], dataset="pf-willow"), "willow")
    back = select(make([{0}], direction="target-to-source"), "back")
    deep = select(make([{0}], depth=101), "deep")
    others = select(make([{0}], ids=["another pair"]), "others")
    found, refused = agreements([pascal, willow, back, deep, others])
    assert [(each.first, each.second) for each in found] == []
    reasons = {each.second: each.reason for each in refused if each.first == "pascal"}
    assert reasons == {
        "willow": "different pairs: pf-pascal test, source-to-target and pf-willow test, source-to-target",
        "back": "different pairs: pf-pascal test, source-to-target and pf-pascal test, target-to-source",
        "deep": "different backbones: 17 and 34 layers",
        "others": "no pair was predicted by both",
    }
    assert all(isinstance(each, Incomparable) for each in refused) and len(refused) == 10
