"""How much of the published figure is the leak: the published schedule with and without leaked pairs.

    python -m benchmarks.leak DATA RUNS
    python -m benchmarks.leak                         the table of the documentation anew, from the record

DATA holds the folder PF-PASCAL. RUNS keeps both runs: stopped, the same command resumes. 95 of the 277
different test pairs are training pairs. One run trains on all official training pairs, the other leaves these
out. Both are judged on the leaked test pairs and on the others. Heads are those of the last epoch: nothing is
chosen on the test pairs.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.evaluate import open_pairs
from benchmarks.record import RESULTS, ROOT, run, save_result, write_between
from dhpf import load
from dhpf.data import PairDataset, open_dataset
from dhpf.evaluate.predict import predict
from dhpf.evaluate.protocol import protocol_for
from dhpf.evaluate.score import pair_values
from dhpf.train.loop import train
from dhpf.train.recipe import read_recipe

RECIPES = ("resnet50-strong", "resnet50-strong-without-test-pairs")
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
    for name in RECIPES:
        config = read_recipe(name, [f"data.root={data}"])
        out = runs / name
        train(config, out, resume=True, features=runs / "features")
        done = predict(load(out / "last.safetensors"), test, runs / f"{name}.npz")
        if done.predictions is None:
            raise SystemExit("run it as one process")
        _, values, _ = pair_values(done.predictions, protocol_for("pf-pascal"), ALPHAS)
        history = json.loads((out / "history.json").read_text(encoding="utf-8"))
        result[name] = {
            "epochs": len(history),
            "training_pck": round(history[-1]["pck"], 1),
            "pck": {part: values[members].mean(0).round(1).tolist() for part, members in parts.items()},
        }
        print(name, result[name], flush=True)
    return result


def page_table(result: dict[str, Any]) -> str:
    """The table of the documentation: both trainings on each part of the test pairs, their differences."""
    lines = ["| Test pairs | | with them | without them | difference |", "|---|---|---|---|---|"]
    for part, count in result["pairs"].items():
        with_them, without = (result[name]["pck"][part] for name in RECIPES)
        changes = [f"{a - b:+.1f}" for a, b in zip(with_them, without, strict=True)]
        cells = [" / ".join(f"{value:.1f}" for value in values) for values in (with_them, without)]
        lines.append(f"| {part} | {count} | {' | '.join(cells)} | {' / '.join(changes)} |")
    return "\n".join(lines)


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


if __name__ == "__main__":
    run(main)
