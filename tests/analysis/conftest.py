"""Predictions of a few pairs whose layers are written down."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pytest

from dhpf.evaluate.predictions import PairPrediction, Predictions

TRUTH = np.array([(30.0, 40.0), (130.0, 40.0), (30.0, 120.0)])


def of_layers(
    chosen: Sequence[Iterable[int]],
    categories: Sequence[str] = (),
    *,
    count: int = 12,
    gated: bool = True,
    ids: Sequence[str] = (),
    off: float = 0.0,
    **about: Any,
) -> Predictions:
    """Predictions of pairs that used the layers ``chosen[i]`` of ``count``; points are ``off`` by pixels."""
    pairs = []
    for index, layers in enumerate(chosen):
        on = np.zeros(count, np.bool_)
        on[list(layers)] = True
        pairs.append(
            PairPrediction(
                pair_id=ids[index] if ids else f"pair {index}",
                category=categories[index] if categories else "cat",
                source_image=f"{index}_a.jpg",
                target_image=f"{index}_b.jpg",
                source_size=(300, 200),
                target_size=(300, 200),
                source_points=TRUTH,
                predicted_points=TRUTH + np.array([off, 0]),
                target_points=TRUTH,
                layers=on,
                gate_probabilities=np.where(on, 0.9, 0.2) if gated else None,
            )
        )
    named = {"dataset": "pf-pascal", "split": "test", "model": "some", "commit": "c0ffee"} | about
    return Predictions.of_pairs(pairs, **named)


@pytest.fixture
def make() -> Callable[..., Predictions]:
    return of_layers
