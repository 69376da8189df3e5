"""What the second vote about a motion (``model/motion.py``) changes: accuracy and time of each model.

    python -m benchmarks.second_vote DATA [--models ...]

On PF-PASCAL's validation pairs that are neither test pairs nor show a photo that the model was trained on,
each pair is matched with one vote and with two, in turn, from the same features.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import save_result
from dhpf import load
from dhpf.data import open_dataset
from dhpf.evaluate.provenance import training_images

ALPHAS = (0.05, 0.1, 0.15)
MODELS = ("hpf-resnet50", "resnet50-weak", "resnet50-strong", "resnet50-strong-wide")


def main() -> None:
    """Match, compare, record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--models", nargs="+", default=MODELS)
    arguments = parser.parse_args()
    root = arguments.data / "PF-PASCAL"
    test = {
        frozenset((e.source.name, e.target.name)) for e in open_dataset("pf-pascal", root, "test").entries
    }
    pairs = open_dataset("pf-pascal", root, "val")
    result = {}
    for model in arguments.models:
        seen = set(training_images(model) or ())
        chosen = [
            index
            for index, entry in enumerate(pairs.entries)
            if frozenset((entry.source.name, entry.target.name)) not in test
            and not seen & {entry.source.name, entry.target.name}
        ]
        result[model] = compare(model, [pairs[index] for index in chosen])
        print(model, result[model], flush=True)
    save_result(
        "second_vote", f"python -m benchmarks.second_vote DATA --models {' '.join(arguments.models)}", result
    )


def compare(model: str, pairs: list[Any]) -> dict[str, Any]:
    """PCK at the shares of the photo's sides of the protocol ``dhpf``, and milliseconds, once and twice."""
    matcher = load(model)
    pck: dict[bool, list[list[float]]] = {False: [], True: []}
    taken: dict[bool, list[float]] = {False: [], True: []}
    for number, pair in enumerate(pairs):
        a, b = (matcher.features(photo.image()) for photo in (pair.source, pair.target))
        order = (False, True) if number % 2 else (True, False)
        for twice in order:
            matcher.network.motion = twice
            started = time.perf_counter()
            match = matcher.match(a, b)
            taken[twice].append(1000 * (time.perf_counter() - started))
            points = pair.source.points.clip(0, a.photo.size)
            error = (match.transfer(points) - pair.target.points) / b.photo.size
            distance = np.linalg.norm(error, axis=1)
            pck[twice].append([100 * float((distance <= alpha).mean()) for alpha in ALPHAS])
    one_vote, two_votes = (np.array(pck[key]) for key in (False, True))
    difference = two_votes - one_vote
    return {
        "pairs": len(pairs),
        "pck_once": np.round(one_vote.mean(0), 1).tolist(),
        "pck_twice": np.round(two_votes.mean(0), 1).tolist(),
        "standard_error_of_the_difference": np.round(difference.std(0) / len(pairs) ** 0.5, 1).tolist(),
        "match_ms_once": round(statistics.median(taken[False]), 1),
        "match_ms_twice": round(statistics.median(taken[True]), 1),
    }


if __name__ == "__main__":
    main()
