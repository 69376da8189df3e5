"""PF-PASCAL and PF-WILLOW, predicted once and scored under each protocol; and how long that takes.

    python -m benchmarks.evaluate DATA [--model hpf-resnet50] [--only pf-pascal]

DATA holds the folders PF-PASCAL and PF-WILLOW. The time of each prediction run is set beside that of the
plain fast match of benchmarks/speed, taken before and after it in the same process.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from dhpf.model.models import DEFAULT_MODEL

from benchmarks.record import save_result
from dhpf import Matcher, load
from dhpf.data import open_dataset
from dhpf.evaluate.predict import default_workers, predict
from dhpf.evaluate.protocol import protocol_for
from dhpf.evaluate.score import score_predictions
from dhpf.evaluate.tables import to_dict

# What is recorded: data set, protocol, ending of the file's name.
RESULTS = (
    ("pf-pascal", "dhpf", ""),
    ("pf-pascal", "original", "_original"),
    ("pf-willow", "dhpf", ""),
    ("pf-willow", "dhpf-legacy", "_legacy"),
)
FOLDERS = {"pf-pascal": "PF-PASCAL", "pf-willow": "PF-WILLOW"}


def fast_match_seconds(matcher: Matcher, rounds: int = 5) -> float:
    """One match of two images in memory, backbone included: the median."""
    width, height = matcher.size
    source, target = torch.randn(2, 1, 3, height, width, generator=torch.Generator().manual_seed(0))
    times = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        matcher.network(source, target)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def main() -> None:
    """Predict, score, record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--only", choices=FOLDERS)
    parser.add_argument("--keep", type=Path, help="a folder for the predictions files")
    arguments = parser.parse_args()
    matcher = load(arguments.model)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        for dataset in [arguments.only] if arguments.only else FOLDERS:
            pairs = open_dataset(dataset, arguments.data / FOLDERS[dataset], "test")
            before = fast_match_seconds(matcher)
            start = time.perf_counter()
            done = predict(matcher, pairs, folder / f"{dataset}_{arguments.model}.npz")
            seconds = time.perf_counter() - start
            fast = (before + fast_match_seconds(matcher)) / 2
            if done.predictions is None:
                raise SystemExit("run it as one process")
            timing: dict[str, Any] = {
                "seconds": round(seconds, 1),
                "workers": default_workers(),
                "images_computed": done.images,
                "fast_match_seconds": round(fast, 4),
                "over_pairs_times_fast_match": round(seconds / (len(pairs) * fast), 3),
            }
            for name, protocol, ending in RESULTS:
                if name != dataset:
                    continue
                score = score_predictions(done.predictions, protocol_for(dataset, protocol))
                command = (
                    f"dhpf evaluate --model {arguments.model} --dataset {dataset} --root {FOLDERS[dataset]}"
                )
                command += f" --split test --protocol {protocol}"
                figures = to_dict(score)
                print(f"{dataset}, {score.fingerprint}: {figures['pck']}")
                chosen = done.predictions.layers
                layers = None if chosen is None else round(float(chosen.sum(axis=1).mean()), 2)
                timed = {"points_outside_image": done.moved, "average_layers": layers, "timing": timing}
                save_result(f"{dataset}_{arguments.model}{ending}", command, figures | timed)


if __name__ == "__main__":
    main()
