"""Time per pair of several models, in turn on the same pairs, so that a busy machine slows all alike."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from ..data.pairs import PairDataset
from ..matcher import Matcher
from ..progress import shown

TIMED_PAIRS = 50


def time_pairs(
    matchers: Sequence[Matcher], dataset: PairDataset, ids: Collection[str], count: int = TIMED_PAIRS
) -> NDArray[np.float64]:
    """Milliseconds of every model for each pair, (models, pairs), from decoded images to matches.

    Parameters
    ----------
    ids
        Of pairs whose images can be read; the timed ones are spread evenly over them.
    count
        Pairs to time, at most.
    """
    readable = set(ids)
    known = [index for index, entry in enumerate(dataset.entries) if entry.id in readable]
    chosen = np.linspace(0, len(known) - 1, min(count, len(known))).round().astype(int)
    taken = np.empty((len(matchers), len(chosen)))
    for number, index in shown(enumerate(known[place] for place in chosen), "timing", len(chosen)):
        pair = dataset[index]
        images = pair.source.image(), pair.target.image()
        if number == 0:
            for matcher in matchers:
                matcher.match(*images)  # the first match compiles and allocates
        for turn in range(len(matchers)):
            model = (turn + number) % len(matchers)  # none always follows the same one
            started = time.perf_counter()
            matchers[model].match(*images)
            taken[model, number] = time.perf_counter() - started
    return 1000 * taken
