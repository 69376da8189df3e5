"""PF-PASCAL, PF-WILLOW, Caltech-101 and held-out SPair-71k pairs, predicted once, scored under each protocol.

    python -m benchmarks.evaluate DATA [--model hpf-resnet50] [--only pf-pascal]

DATA holds the data sets' folders. The figures of a model in the package also go into its card. The time of
each prediction run is set beside that of one match, taken before and after it in the same process.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import commit, save_result
from dhpf import Matcher, load
from dhpf.data import PairDataset, open_dataset
from dhpf.data.registry import find_dataset
from dhpf.evaluate.predict import default_workers, predict
from dhpf.evaluate.protocol import protocol_for
from dhpf.evaluate.score import score_predictions
from dhpf.evaluate.tables import to_dict
from dhpf.train.recipe import read_recipe
from dhpf.train.sources import open_sources
from dhpf.zoo import DEFAULT_MODEL, MODELS, models, record_figures

# What is recorded: data set, protocol, ending of the file's name.
RESULTS = (
    ("pf-pascal", "dhpf", ""),
    ("pf-pascal", "original", "_original"),
    ("pf-willow", "dhpf", ""),
    ("pf-willow", "dhpf-legacy", "_legacy"),
    ("spair-71k", "dhpf", ""),
    ("caltech-101", "dhpf", ""),
)
HELD_OUT = "dinov2-small"  # the recipe whose held-out pairs of SPair-71k no bundled model has seen


def open_pairs(dataset: str, data: Path) -> PairDataset:
    """The test split; of SPair-71k the held-out pairs of a recipe, as there is no test split at hand."""
    if dataset != "spair-71k":
        return open_dataset(dataset, data / find_dataset(dataset).folder, "test")
    config = read_recipe(HELD_OUT, [f"data.root={data}", "data.validation_pairs=1000"])
    held_out = open_sources(config.data, config.run.seed, needs_points=True).validation
    return next(part for part in held_out if part.name == dataset)


def match_seconds(matcher: Matcher, rounds: int = 5) -> float:
    """One match of two images in memory, backbone included: the median."""
    width, height = matcher.size
    source, target = np.random.default_rng(0).integers(0, 256, (2, height, width, 3), np.uint8)
    times = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        matcher.match(source, target)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def main() -> None:
    """Predict, score, record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--only", choices=sorted({name for name, _, _ in RESULTS}), nargs="+")
    parser.add_argument("--keep", type=Path, help="a folder for the predictions files")
    arguments = parser.parse_args()
    matcher = load(arguments.model)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        for dataset in arguments.only or dict.fromkeys(name for name, _, _ in RESULTS):
            pairs = open_pairs(dataset, arguments.data)
            before = match_seconds(matcher)
            start = time.perf_counter()
            done = predict(matcher, pairs, folder / f"{dataset}_{arguments.model}.npz")
            seconds = time.perf_counter() - start
            one = (before + match_seconds(matcher)) / 2
            if done.predictions is None:
                raise SystemExit("run it as one process")
            chosen = done.predictions.layers
            about: dict[str, Any] = {
                "average_layers": None if chosen is None else round(float(chosen.sum(axis=1).mean()), 2),
                "timing": {
                    "seconds": round(seconds, 1),
                    "workers": default_workers(),
                    "images_computed": done.images,
                    "match_seconds": round(one, 4),
                    "over_pairs_times_match": round(seconds / (len(pairs) * one), 3),
                },
            }
            for name, protocol, ending in RESULTS:
                if name == dataset:
                    record(arguments.model, pairs, done.predictions, protocol, ending, about)


def record(
    model: str, pairs: PairDataset, predictions: Any, protocol: str, ending: str, about: dict[str, Any]
) -> None:
    """Score under a protocol; write the result, and the short form of it to the model's card."""
    score = score_predictions(predictions, protocol_for(pairs.name, protocol))
    figures = to_dict(score)
    print(f"{pairs.name}, {score.fingerprint}: {figures.get('pck') or figures.get('masks')}", flush=True)
    command = f"python -m benchmarks.evaluate DATA --model {model} --only {pairs.name}"
    path = save_result(f"{pairs.name}_{model}{ending}", command, figures | about)
    if model not in models():
        return
    kept = ("pck", "masks", "pairs", "leak_free")
    short = {key: figures[key] for key in kept if figures.get(key) is not None}
    if isinstance(short.get("leak_free"), dict):
        short["leak_free"] = {key: short["leak_free"].get(key) for key in ("pairs", "pck")}
    split = "held-out pairs of the training split" if pairs.name == "spair-71k" else pairs.split
    evidence = {"split": split, "protocol": score.fingerprint, "layers": about["average_layers"]}
    where = {"commit": commit(), "file": f"benchmarks/results/{path.name}"}
    record_figures(MODELS / f"{model}.json", f"{pairs.name}{ending}", short | evidence | where)


if __name__ == "__main__":
    main()
