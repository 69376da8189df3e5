"""PF-PASCAL, PF-WILLOW, Caltech-101 and held-out SPair-71k pairs, predicted once, scored under each protocol.

    python -m benchmarks.evaluate DATA [--model hpf-resnet50] [--only pf-pascal]

DATA holds the data sets' folders. The figures of a model in the package also go into its card. The time of
each prediction run is set beside that of one match, taken before and after it in the same process.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.record import RESULTS as FOLDER
from benchmarks.record import run, save_result
from dhpf import Matcher, load
from dhpf.data import PairDataset, open_dataset
from dhpf.data.registry import find_dataset
from dhpf.evaluate.predict import default_workers, predict
from dhpf.evaluate.predictions import Predictions
from dhpf.evaluate.protocol import protocol_for
from dhpf.evaluate.score import score_predictions
from dhpf.evaluate.tables import to_dict
from dhpf.train.recipe import read_recipe
from dhpf.train.sources import open_sources
from dhpf.zoo import DEFAULT_MODEL, MODELS, models, record_figures


class Recorded(NamedTuple):
    """A file of results."""

    dataset: str
    protocol: str
    changes: tuple[str, ...] = ()  # of the protocol
    ending: str = ""  # of the file's name

    def name(self, model: str) -> str:
        """Of the file."""
        return f"{self.dataset}_{model}{self.ending}"


RESULTS = (
    Recorded("pf-pascal", "dhpf"),
    Recorded("pf-pascal", "dhpf", ("threshold=box",), "_box"),
    Recorded("pf-pascal", "original", ending="_original"),
    Recorded("pf-willow", "dhpf"),
    Recorded("pf-willow", "dhpf-legacy", ending="_legacy"),
    Recorded("spair-71k", "dhpf"),
    Recorded("caltech-101", "dhpf"),
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
    parser.add_argument("--only", choices=sorted({one.dataset for one in RESULTS}), nargs="+")
    parser.add_argument("--keep", type=Path, help="a folder for the predictions files")
    arguments = parser.parse_args()
    matcher = load(arguments.model)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        for dataset in arguments.only or dict.fromkeys(one.dataset for one in RESULTS):
            pairs = open_pairs(dataset, arguments.data)
            before = match_seconds(matcher)
            start = time.perf_counter()
            done = predict(matcher, pairs, folder / f"{dataset}_{arguments.model}.npz")
            seconds = time.perf_counter() - start
            one = (before + match_seconds(matcher)) / 2
            if done.predictions is None:
                raise SystemExit("run it as one process")
            timing = {
                "seconds": round(seconds, 1),
                "workers": default_workers(),
                "images_computed": done.images,
                "match_seconds": round(one, 4),
                "over_pairs_times_match": round(seconds / (len(pairs) * one), 3),
            }
            command = f"python -m benchmarks.evaluate DATA --model {arguments.model} --only {dataset}"
            record_all(arguments.model, pairs, done.predictions, command, {"timing": timing})


def record_all(
    model: str,
    pairs: PairDataset,
    predictions: Predictions,
    command: str,
    about: dict[str, Any] | None = None,
    folder: Path = FOLDER,
) -> None:
    """Score under every protocol of the data set; write the results, and what a card has of them."""
    chosen = predictions.layers
    layers = {} if chosen is None else {"average_layers": round(float(chosen.sum(axis=1).mean()), 2)}
    for one in RESULTS:
        if one.dataset != pairs.name:
            continue
        score = score_predictions(predictions, protocol_for(pairs.name, one.protocol, one.changes))
        figures = to_dict(score)
        print(f"{pairs.name}, {score.fingerprint}: {figures.get('pck') or figures.get('masks')}", flush=True)
        save_result(one.name(model), command, figures | layers | (about or {}), folder)
    if model in models() and folder == FOLDER:
        fill_card(model)


def fill_card(model: str) -> None:
    """Write the short form of all its files of results to a model's card."""
    for one in RESULTS:
        path = FOLDER / f"{one.name(model)}.json"
        if path.exists():
            figures = card_figures(json.loads(path.read_text()), path.name)
            record_figures(MODELS / f"{model}.json", f"{one.dataset}{one.ending}", figures)


def card_figures(record: Mapping[str, Any], file: str) -> dict[str, Any]:
    """What a card has of a file of results."""
    result = record["result"]
    short = {key: result[key] for key in ("pck", "masks", "pairs") if key in result}
    if result["leak_free"] is not None:
        short["leak_free"] = {k: v for k, v in result["leak_free"].items() if k in ("pairs", "pck", "masks")}
    of_training = result["dataset"] == "spair-71k"
    short["split"] = "held-out pairs of the training split" if of_training else result["split"]
    short["protocol"] = result["protocol"]["fingerprint"]
    if result.get("average_layers") is not None:
        short["layers"] = result["average_layers"]
    return short | {"commit": record["commit"], "file": f"benchmarks/results/{file}"}


if __name__ == "__main__":
    run(main)
