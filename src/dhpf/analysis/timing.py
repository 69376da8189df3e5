"""Time per pair of several models, in turn on the same pairs, so that a busy machine slows all alike."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..data.pairs import PairDataset
from ..matcher import Matcher
from ..progress import shown

TIMED_PAIRS = 50


@dataclass(frozen=True, eq=False)
class Timing:
    """Milliseconds that one model took for each pair, from decoded photos to matches."""

    milliseconds: NDArray[np.float64]  # (T,)

    @property
    def median(self) -> float:
        """Half of the pairs took less."""
        return float(np.median(self.milliseconds))

    @property
    def quartiles(self) -> tuple[float, float]:
        """A quarter of the pairs took less than the first, a quarter more than the second."""
        low, high = np.percentile(self.milliseconds, [25, 75])
        return float(low), float(high)

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "pairs": len(self.milliseconds),
            "median_ms": round(self.median, 3),
            "mean_ms": round(float(self.milliseconds.mean()), 3),
            "quartiles_ms": [round(end, 3) for end in self.quartiles],
            "all_ms": np.round(self.milliseconds, 3).tolist(),
        }


def time_pairs(
    matchers: Sequence[Matcher], dataset: PairDataset, ids: Collection[str], count: int = TIMED_PAIRS
) -> list[Timing]:
    """Time every model on the same pairs.

    Parameters
    ----------
    ids
        Of pairs whose images can be read; the timed ones are spread evenly over them.
    count
        Pairs to time, at most.
    """
    readable = set(ids)
    known = [index for index, entry in enumerate(dataset.entries) if entry.id in readable]
    places = np.linspace(0, len(known) - 1, min(count, len(known))).round().astype(int)
    taken = np.empty((len(matchers), len(places)))
    for number, index in shown(enumerate(known[place] for place in places), "timing", len(places)):
        pair = dataset[index]
        photos = pair.source.image(), pair.target.image()
        if number == 0:
            for matcher in matchers:
                matcher.match(*photos)  # the first match compiles and allocates
        for turn in range(len(matchers)):
            model = (turn + number) % len(matchers)  # none always follows the same one
            started = time.perf_counter()
            matchers[model].match(*photos)
            taken[model, number] = time.perf_counter() - started
    return [Timing(1000 * row) for row in taken]


def circumstances(matcher: Matcher) -> dict[str, Any]:
    """What the times depend on besides the model."""
    return {
        "device": str(matcher.device),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "input_size": list(matcher.size),
        "counted": "resizing, features of both photos and matching; photos are decoded before",
    }
