"""Small predictions whose figures one can work out on paper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dhpf.evaluate.predictions import PairPrediction, Predictions

TRUTH = np.array([(30.0, 40.0), (130.0, 40.0), (30.0, 120.0)])


@pytest.fixture
def make_pair() -> Callable[..., PairPrediction]:
    """A pair whose target is 300 x 200 px; its points, unless given, are predicted exactly."""

    def make(pair_id: str = "one", **changes: Any) -> PairPrediction:
        truth = np.asarray(changes.pop("target_points", TRUTH))
        fields: dict[str, Any] = {
            "pair_id": pair_id,
            "category": "cat",
            "source_image": f"{pair_id}_a.jpg",
            "target_image": f"{pair_id}_b.jpg",
            "source_size": (300, 200),
            "target_size": (300, 200),
            "source_points": truth,
            "predicted_points": truth,
            "target_points": truth,
        }
        return PairPrediction(**(fields | changes))

    return make


@pytest.fixture
def make_predictions(make_pair: Callable[..., PairPrediction]) -> Callable[..., Predictions]:
    """Predictions of the given pairs, or of one exact pair."""

    def make(*pairs: PairPrediction, **changes: Any) -> Predictions:
        about: dict[str, Any] = {
            "dataset": "pf-pascal",
            "split": "test",
            "model": "exact",
            "commit": "c0ffee",
        }
        return Predictions.of_pairs(pairs or (make_pair(),), **(about | changes))

    return make
