"""How long a training step takes, against the straightforward implementation, at equal gradients.

    python -m benchmarks.train_speed [--rounds 5] [--strong 8] [--weak 2] [--size 240]

A step is forward and backward from features that are there already: stored in float16 for ours, float32 for
the straightforward one. Both are timed in turn, round after round, in one process: on a shared machine only
the ratios count. Peak memory is of a process of its own. Pairs are made of the sample photos, with random
points; about half of the layers are on. A weak step has as many negative pairs as positive ones.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from rich.console import Console
from rich.table import Table
from torch import Tensor

from benchmarks.record import save_result
from benchmarks.speed import interleaved
from benchmarks.straightforward import batch_of, straightforward_loss
from dhpf.backbones.weights import load_backbone
from dhpf.data.pairs import Photo
from dhpf.memory import keep_freed_memory
from dhpf.methods.base import Batch, TrainingPair
from dhpf.methods.dhpf import DHPF, DHPFConfig, DHPFObjective
from dhpf.samples import FOLDER
from dhpf.train.augmentation import Augmentation
from dhpf.train.features import FeatureStore
from dhpf.train.step import Losses

POINTS = 10  # of each pair
BACKBONE = "resnet50-msra"
TOLERANCE = 1e-3  # relative difference of gradients, as in the comparison with published figures
NEGLIGIBLE = 1e-7  # length of a gradient


class Case(NamedTuple):
    """What is measured."""

    objective: str
    gate_power: int  # 1: the gate enters once; 2: squared, as published
    pairs: int
    size: int

    @property
    def name(self) -> str:
        return f"{self.objective}, gate power {self.gate_power}"


def prepared(case: Case) -> tuple[DHPF, list[TrainingPair]]:
    """A method as it begins a run, and its pairs."""
    method = DHPF(load_backbone(BACKBONE), DHPFConfig(gate_power=case.gate_power))
    photos = []
    for path in sorted(FOLDER.glob("*.jpg")):
        with Image.open(path) as image:
            photo = Photo(path, image.size, np.zeros((0, 2)))
        photos += [photo, photo.mirror()]
    random = np.random.default_rng(0)
    size = (case.size, case.size)
    with tempfile.TemporaryDirectory() as folder:
        store = FeatureStore(method.backbone, BACKBONE, size, Path(folder), limit=2**30)
        stored = [store.get(photo, Augmentation()) for photo in photos]
        method.prepare(stored, torch.Generator().manual_seed(0), "principal")
    pairs = []
    for n in range(case.pairs):
        first, second = stored[n % len(stored)], stored[(n + 1 + n // len(stored)) % len(stored)]
        points = (torch.from_numpy(random.uniform(0, case.size, (POINTS, 2))).float() for _ in range(2))
        pairs.append(TrainingPair(first, second, *points))
    return method, pairs


def steps_of(case: Case) -> dict[str, Callable[[], list[Tensor]]]:
    """Both ways to take the step; each returns the gradients of all parameters."""
    method, pairs = prepared(case)
    batch = batch_of(pairs)
    objective = DHPFObjective(objective=case.objective)
    head, losses = method.head().requires_grad_(True), Losses(method, objective)

    def noise() -> torch.Generator:
        return torch.Generator().manual_seed(0)

    def gradients(loss: Callable[[], Tensor]) -> list[Tensor]:
        head.zero_grad()
        torch.autograd.backward(loss())
        return [torch.zeros_like(p) if p.grad is None else p.grad for p in head.parameters()]

    return {
        "straightforward": lambda: gradients(lambda: straightforward_loss(method, objective, batch, noise())),
        "ours": lambda: gradients(lambda: losses(Batch(pairs, range(len(pairs)), len(pairs), noise()))[0]),
    }


def peak_megabytes(case: Case, way: str) -> float:
    """The largest memory of a process that takes a step one way."""
    words = [sys.executable, "-m", "benchmarks.train_speed", "--peak", way, *map(str, case)]
    return float(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def measure(case: Case, rounds: int) -> dict[str, Any]:
    """One case: gradients, times, memory."""
    steps = steps_of(case)
    # Of each parameter by itself: those of the gates are much longer than those of the transformations.
    both = zip(steps["ours"](), steps["straightforward"](), strict=True)
    differences = [(found - wanted).norm() / wanted.norm().clamp_min(NEGLIGIBLE) for found, wanted in both]
    difference = torch.stack(differences).max().item()
    if not difference < TOLERANCE:
        raise SystemExit(f"{case.name}: gradients differ by {difference:.1e} of their length")
    times = interleaved(steps, rounds)
    return {
        "case": case.name,
        "pairs": case.pairs,
        "size": case.size,
        "gradients_largest_relative_difference": difference,
        "milliseconds": times,
        "times_faster": times["straightforward"]["median"] / times["ours"]["median"],
        "peak_megabytes": {way: peak_megabytes(case, way) for way in steps},
    }


def own_peak_megabytes() -> float:
    """Of this process since it was started; ``ru_maxrss`` would count the process that started it, too."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    return int(found[1]) / 1024 if found else float("nan")


def main() -> None:
    """Measure, print, record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--strong", type=int, default=8, help="pairs of a strong step")
    parser.add_argument("--weak", type=int, default=2, help="positive pairs of a weak step")
    parser.add_argument("--size", type=int, default=240)
    parser.add_argument("--peak", nargs=5, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    keep_freed_memory()
    if arguments.peak:
        way, objective, power, pairs, size = arguments.peak
        steps_of(Case(objective, int(power), int(pairs), int(size)))[way]()
        print(own_peak_megabytes())
        return
    cases = [
        Case(objective, power, pairs, arguments.size)
        for objective, pairs in (("strong", arguments.strong), ("weak", 2 * arguments.weak))
        for power in (2, 1)
    ]
    table = Table(title="A training step: milliseconds (median), peak megabytes")
    headings = "case pairs straightforward ours faster MB MB-ours gradients"
    for heading in headings.split():
        table.add_column(heading, justify="right")
    results = []
    for case in cases:
        r = measure(case, arguments.rounds)
        results.append(r)
        times, memory = r["milliseconds"], r["peak_megabytes"]
        table.add_row(
            case.name,
            str(case.pairs),
            *(f"{times[way]['median']:.0f}" for way in ("straightforward", "ours")),
            f"{r['times_faster']:.1f}",
            *(f"{memory[way]:.0f}" for way in ("straightforward", "ours")),
            f"{r['gradients_largest_relative_difference']:.0e}",
        )
        print(f"{case.name}: done")
    Console().print(table)
    save_result("train_speed", f"python -m benchmarks.train_speed --rounds {arguments.rounds}", results)


if __name__ == "__main__":
    main()
