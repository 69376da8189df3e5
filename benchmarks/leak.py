"""How much of the published figure is the leak: the published optimiser with and without leaked pairs.

    python -m benchmarks.leak DATA RUNS
    python -m benchmarks.leak                         the table of the documentation anew, from the record

DATA holds the folder PF-PASCAL. RUNS keeps both runs: stopped, the same command resumes. 95 of the 277
different test pairs are training pairs. One run trains on all official training pairs, the other leaves these
out; side by side, each on half of the cores. Both are judged on the leaked test pairs and on the others,
after so many epochs and again after more. Nothing is chosen on the test pairs.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.evaluate import open_pairs
from benchmarks.record import RESULTS, ROOT, run, save_result, write_between
from dhpf import load
from dhpf.data import PairDataset, open_dataset
from dhpf.evaluate.predict import predict
from dhpf.evaluate.protocol import protocol_for
from dhpf.evaluate.score import pair_values
from dhpf.files import write_atomically
from dhpf.train.checkpoint import LAST
from dhpf.train.loop import train
from dhpf.train.recipe import read_recipe

RECIPES = ("resnet50-strong", "resnet50-strong-without-test-pairs")
EPOCHS = (5, 10, 15)  # after which both are judged
ALPHAS = (0.05, 0.1, 0.15)
PAGE = ROOT / "docs" / "paper_experiment.md"

Names = frozenset[str]


def images_of(pairs: PairDataset) -> list[Names]:
    """The two images of each pair, in any order."""
    return [frozenset((entry.source.name, entry.target.name)) for entry in pairs.entries]


def parts_of(test: list[Names], training: Collection[Names]) -> dict[str, np.ndarray]:
    """Which test pairs are training pairs, which share an image with them, which do not."""
    known, seen = set(training), {name for pair in training for name in pair}
    leaked = np.array([pair in known for pair in test])
    touched = np.array([bool(pair & seen) for pair in test])
    return {
        "all": np.ones(len(test), bool),
        "training pairs": leaked,
        "other pairs": ~leaked,
        "pairs of images unseen in training": ~touched,
    }


def measure(data: Path, runs: Path) -> dict[str, Any]:
    """Train both, judge both."""
    test = open_pairs("pf-pascal", data)
    training = open_dataset("pf-pascal", data / "PF-PASCAL", "trn")
    parts = parts_of(images_of(test), images_of(training))
    result: dict[str, Any] = {"pairs": {name: int(members.sum()) for name, members in parts.items()}}
    train_side_by_side(data, runs)
    for name in RECIPES:
        result[name] = {}
        for epochs in EPOCHS:
            done = predict(load(head_of(name, epochs, runs)), test, runs / name / f"epoch{epochs}.npz")
            if done.predictions is None:
                raise SystemExit("run it as one process")
            _, values, _ = pair_values(done.predictions, protocol_for("pf-pascal"), ALPHAS)
            history = json.loads((runs / name / "history.json").read_text(encoding="utf-8"))
            result[name][str(epochs)] = {
                "training_pck": round(history[epochs - 1]["pck"], 1),
                "pck": {part: values[members].mean(0).round(1).tolist() for part, members in parts.items()},
            }
            print(name, epochs, result[name][str(epochs)], flush=True)
    return result


def train_side_by_side(data: Path, runs: Path) -> None:
    """Each recipe in a process of its own: on a CPU, steps so small do not share cores well."""
    context = multiprocessing.get_context("spawn")
    both = [context.Process(target=train_one, args=(name, data, runs)) for name in RECIPES]
    for process in both:
        process.start()
    for process in both:
        process.join()
    if any(process.exitcode for process in both):
        raise SystemExit("a training stopped; the same command resumes it")


def train_one(name: str, data: Path, runs: Path) -> None:
    """Train as far as the last of the epochs, keeping a head after each; with the constant rate of the
    recipes, a longer run begins the same."""
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // len(RECIPES)))
    for epochs in EPOCHS:
        head = head_of(name, epochs, runs)
        if not head.exists():
            config = read_recipe(name, [f"data.root={data}", f"run.epochs={epochs}"])
            train(config, runs / name, resume=True, features=runs / "features")
            done = len(json.loads((runs / name / "history.json").read_text(encoding="utf-8")))
            if done != epochs:
                raise SystemExit(f"{runs / name} has {done} epochs already, and {head.name} is lost")
            write_atomically(head, (runs / name / LAST).read_bytes())


def head_of(name: str, epochs: int, runs: Path) -> Path:
    """The head of a recipe after so many epochs."""
    return runs / name / f"epoch{epochs}.safetensors"


def page_table(result: dict[str, Any]) -> str:
    """The table of the documentation: the longest of both trainings on each part of the test pairs."""
    lines = ["| Test pairs | | with them | without them | difference |", "|---|---|---|---|---|"]
    for part, count in result["pairs"].items():
        both = [[*result[name].values()][-1]["pck"][part] for name in RECIPES]
        cells = " | ".join(" / ".join(f"{value:.1f}" for value in values) for values in both)
        lines.append(f"| {part} | {count} | {cells} | {_difference(*both)} |")
    return "\n".join(lines)


def growth_table(result: dict[str, Any]) -> str:
    """What the leak is worth after so many epochs."""
    parts = [part for part in result["pairs"] if part != "all"]
    titles = ["Epochs", "all test pairs, with them", *(f"difference on {part}" for part in parts)]
    lines = [f"| {' | '.join(titles)} |", "|" + "---|" * len(titles)]
    for epochs in result[RECIPES[0]]:
        both = [result[name][epochs]["pck"] for name in RECIPES]
        cells = [" / ".join(f"{value:.1f}" for value in both[0]["all"])]
        cells += [_difference(*(one[part] for one in both)) for part in parts]
        lines.append(f"| {epochs} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _difference(with_them: list[float], without: list[float]) -> str:
    return " / ".join(f"{a - b:+.1f}" for a, b in zip(with_them, without, strict=True))


def main() -> None:
    """Measure, record, write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("runs", type=Path, nargs="?")
    given = parser.parse_args()
    if given.runs is not None:
        save_result("leak", "python -m benchmarks.leak DATA RUNS", measure(given.data, given.runs))
    record = json.loads((RESULTS / "leak.json").read_text(encoding="utf-8"))["result"]
    write_between(PAGE, "leak", page_table(record))
    write_between(PAGE, "leak by epochs", growth_table(record))


if __name__ == "__main__":
    run(main)
