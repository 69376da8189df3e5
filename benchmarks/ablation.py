"""Tables 3 and 4 of the paper, row by row: what each part of the method is worth, under equal budgets.

    python -m benchmarks.ablation DATA RUNS [--only mu-0.3 squared ...]
    python -m benchmarks.ablation                     the table of the documentation anew, from the record

DATA holds the folder PF-PASCAL. RUNS keeps the runs: stopped, the same command resumes. Each row is a recipe
of ``ablation/``, trained on the official training pairs, as the paper's. Figures are of the test pairs, a
third of which are training pairs, and of those that share no image with training. All rows stand whatever
they reach: nothing is chosen by these figures.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.evaluate import open_pairs
from benchmarks.model_times import kinds, seconds
from benchmarks.record import RESULTS, ROOT, run, save_result, write_between
from benchmarks.table1 import SharedBackbone
from dhpf import Matcher, load
from dhpf.backbones.weights import load_backbone
from dhpf.evaluate.predict import predict_side_by_side
from dhpf.evaluate.protocol import protocol_for
from dhpf.evaluate.score import score_predictions
from dhpf.evaluate.tables import to_dict
from dhpf.methods.hpf import HPF, HPFConfig
from dhpf.train.loop import train
from dhpf.train.recipe import RECIPES as BUNDLED
from dhpf.train.recipe import read_recipe

RECIPES = BUNDLED / "ablation"
PAGE = ROOT / "docs" / "paper_experiment.md"
UNTRAINED = "all-layers-untrained"  # has nothing to learn
TURNS = 7  # of timing


class Row(NamedTuple):
    """Of the paper's Tables 3 and 4."""

    name: str  # the recipe
    title: str
    paper: str  # its figures, with ResNet-101: PCK at 0.05, 0.1, 0.15; milliseconds on a GPU


ROWS = (
    Row("mu-0.5", "the method: Gumbel gates with $\\mu = 0.5$", "75.7 90.7 95.0 58"),
    Row("mu-0.4", "$\\mu = 0.4$", "73.6 90.4 95.3 51"),
    Row("mu-0.3", "$\\mu = 0.3$", "73.1 88.7 94.4 47"),
    Row("all-layers", "all layers, no gates", "70.4 88.1 94.1 64"),
    Row("without-transform", "no transformation", "43.6 74.7 87.5 176"),
    Row("without-hough", "no Hough matching", "68.3 86.9 91.6 57"),
    Row(UNTRAINED, "all layers, no transformation: nothing to train", "37.6 68.7 84.6 124"),
    Row("all-layers-without-hough", "all layers, no Hough matching", "68.1 85.5 91.6 61"),
    Row("without-transform-and-hough", "neither transformation nor Hough matching", "35.0 54.8 63.4 173"),
    Row("without-omega", "no keypoint weights $\\omega$", "69.8 86.1 91.9 57"),
    Row("without-select", "no layer-rate loss", "68.1 89.2 93.5 56"),
    Row("sigmoid", "soft gates: sigmoid", "71.1 88.2 92.8 74"),
    Row("sigmoid-mu", "sigmoid with the layer-rate loss, $\\mu = 0.5$", "72.1 87.8 93.3 75"),
    Row("sigmoid-l1", "sigmoid with an $\\ell_1$ penalty", "65.9 87.2 91.0 60"),
    Row("squared", "the gate squared in the correlation, as in the published code", ""),
)


def trained(name: str, data: Path, runs: Path) -> Matcher:
    """Train one recipe, or go on with it; its last head."""
    if name == UNTRAINED:
        backbone = load_backbone("resnet50-msra")
        every = tuple(range(len(backbone.channels)))
        return Matcher(HPF(backbone, HPFConfig(layers=every)), name)
    config = read_recipe(RECIPES / f"{name}.toml", [f"data.root={data}"])
    train(config, runs / name, resume=True, features=runs / "features")
    return load(runs / name / "last.safetensors")


def milliseconds(matchers: dict[str, Matcher]) -> dict[str, int]:
    """For two new photos, in turns; medians."""
    work = {name: kinds(matcher)["new_photos"] for name, matcher in matchers.items()}
    taken: dict[str, list[float]] = {name: [] for name in work}
    for turn in range(TURNS + 1):
        for name, call in work.items():
            value = seconds(call)
            if turn:  # the first compiles and warms up
                taken[name].append(value)
    return {name: round(1000 * statistics.median(values)) for name, values in taken.items()}


def judged(matchers: dict[str, Matcher], data: Path, runs: Path) -> dict[str, Any]:
    """All rows on the test pairs, pair by pair: they share what the backbone sees."""
    pairs = open_pairs("pf-pascal", data)
    backbone = next(iter(matchers.values())).method.backbone
    shared = SharedBackbone(backbone, range(len(backbone.channels)))
    for matcher in matchers.values():
        matcher.method.backbone = shared
    files = {runs / f"{name}.npz": matcher for name, matcher in matchers.items()}
    rows = {}
    for name, one in zip(matchers, predict_side_by_side(files, pairs), strict=True):
        if one.predictions is None:
            raise SystemExit("run it as one process")
        figures = to_dict(score_predictions(one.predictions, protocol_for("pf-pascal")))
        chosen = one.predictions.layers
        layers = None if chosen is None else round(float(chosen.sum(axis=1).mean()), 1)
        rows[name] = {"pck": figures["pck"], "leak_free": figures.get("leak_free"), "layers": layers}
        print(name, rows[name], flush=True)
    return rows


def page_table(record: dict[str, Any]) -> str:
    """The table of the documentation: the paper's figures, and ours beside them."""
    lines = [
        "| | the paper: 0.05 / 0.1 / 0.15 | ms | here: 0.05 / 0.1 / 0.15 | leak-free | layers | ms |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in ROWS:
        own = record.get(row.name)
        if own is None:
            continue
        *theirs, time = row.paper.split() or [""]
        free = own["leak_free"]["pck"] if own["leak_free"] else {}
        figures = [" / ".join(f"{value:.1f}" for value in part.values()) for part in (own["pck"], free)]
        cells = [row.title, " / ".join(theirs), time, *figures, own["layers"], own["milliseconds"]]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main() -> None:
    """Train all rows, judge them, record them, write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("runs", type=Path, nargs="?")
    names = [row.name for row in ROWS]
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    given = parser.parse_args()
    if given.runs is not None:
        matchers = {name: trained(name, given.data, given.runs) for name in given.only}
        with torch.no_grad():
            times = milliseconds(matchers)
        rows = judged(matchers, given.data, given.runs)
        found = {name: row | {"milliseconds": times[name]} for name, row in rows.items()}
        save_result(
            "ablation", f"python -m benchmarks.ablation DATA RUNS --only {' '.join(given.only)}", found
        )
    record = json.loads((RESULTS / "ablation.json").read_text(encoding="utf-8"))["result"]
    write_between(PAGE, "ablation", page_table(record))


if __name__ == "__main__":
    run(main)
