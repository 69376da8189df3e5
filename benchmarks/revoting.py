"""What affine-conditioned re-voting (``model/revoting.py``) changes, for each model.

    dhpf train resnet50-strong-plus --set data.holdout=0.2 --out RUN
    python -m benchmarks.revoting DATA --models hpf-resnet50 resnet50-strong-plus=RUN/last.safetensors ...

On PF-PASCAL's validation pairs that are neither test pairs nor show an image that the model was trained on,
each pair is matched in both ways in turn, from the same features. ``resnet50-strong-plus`` leaves few such
pairs, so a head of the same recipe that holds out more of them is measured instead.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import save_result
from dhpf import load
from dhpf.data import open_dataset
from dhpf.grid import resize_points
from dhpf.zoo import training_images

ALPHAS = (0.05, 0.1, 0.15)
MODELS = ("hpf-resnet50", "resnet50-weak", "resnet50-strong-plus")
WAYS = {"one vote": False, "re-voting": True}


def main() -> None:
    """Match, compare, record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--models", nargs="+", metavar="NAME[=HEAD]", default=MODELS)
    arguments = parser.parse_args()
    root = arguments.data / "PF-PASCAL"
    test = {
        frozenset((e.source.name, e.target.name)) for e in open_dataset("pf-pascal", root, "test").entries
    }
    pairs = open_dataset("pf-pascal", root, "val")
    result = {}
    for given in arguments.models:
        model, _, head = given.partition("=")
        seen = set(training_images(head or model) or ())
        chosen = [
            index
            for index, entry in enumerate(pairs.entries)
            if frozenset((entry.source.name, entry.target.name)) not in test
            and not seen & {entry.source.name, entry.target.name}
        ]
        result[model] = compare(head or model, [pairs[index] for index in chosen])
        print(model, result[model], flush=True)
    named = [given if "=" not in given else _without_folder(given) for given in arguments.models]
    save_result("revoting", f"python -m benchmarks.revoting DATA --models {' '.join(named)}", result)


def _without_folder(given: str) -> str:
    name, head = given.split("=", 1)
    return f"{name}=RUN/{Path(head).name}"


def compare(model: str, pairs: list[Any]) -> dict[str, Any]:
    """PCK at fractions of the image's sides, as in the protocol ``dhpf``, and milliseconds, of each way."""
    matcher = load(model)
    pck: dict[str, list[list[float]]] = {way: [] for way in WAYS}
    taken: dict[str, list[float]] = {way: [] for way in WAYS}
    for number, pair in enumerate(pairs):
        a, b = (matcher.features(photo.image()).features for photo in (pair.source, pair.target))
        for way in list(WAYS)[:: 1 if number % 2 else -1]:
            matcher.method.config = replace(matcher.method.config, revote=WAYS[way])
            started = time.perf_counter()
            flow = matcher.method.match(a, b).flow
            taken[way].append(1000 * (time.perf_counter() - started))
            landed = flow.transfer(resize_points(pair.source.points, pair.source.size, matcher.size))
            predicted = resize_points(landed, matcher.size, pair.target.size)
            error = (predicted - pair.target.points) / pair.target.size
            distance = np.linalg.norm(error, axis=1)
            pck[way].append([100 * float((distance <= alpha).mean()) for alpha in ALPHAS])
    found: dict[str, Any] = {"pairs": len(pairs)}
    for way, scores in pck.items():
        more = np.array(scores) - pck["one vote"]
        found[way] = {
            "pck": np.round(np.mean(scores, 0), 1).tolist(),
            "standard_error_of_the_difference": np.round(more.std(0) / len(pairs) ** 0.5, 1).tolist(),
            "match_ms": round(statistics.median(taken[way]), 1),
        }
    return found


if __name__ == "__main__":
    main()
