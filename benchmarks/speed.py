"""How long a match takes, stage by stage, against the backbone's own time and against the literal method.

    python -m benchmarks.speed [--rounds 11] [--sizes 160 240 320 480]

All ways are timed in turn, round after round, in one process: on a shared machine only the ratios count. The
networks have random weights; speed does not depend on them. "8 of 17 on" fixes which layers are on.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from tests import literal
from torch import Tensor

from benchmarks.memory import peak_of_match
from benchmarks.record import save_result
from dhpf.backbones.base import Features
from dhpf.backbones.resnet import ResNet
from dhpf.methods.base import Matches
from dhpf.methods.dhpf import DHPF
from dhpf.model.gating import LayerDecisions, LayerGates

LITERAL_LARGEST = 320  # pixels; beyond, the literal method needs gigabytes


class FixedGates(LayerGates):
    """Gates that are computed, and then overruled: the layers that the benchmark wants on."""

    def __init__(self, channels: Sequence[int], on: Sequence[int]) -> None:
        super().__init__(channels)
        self.on = list(on)

    def forward(self, *arguments: Any) -> LayerDecisions:
        decisions = super().forward(*arguments)
        decisions.on.zero_()[:, self.on] = 1
        return decisions


def method_with(depth: int, count: int) -> DHPF:
    """A method with ``count`` layers on, spread evenly over all."""
    torch.manual_seed(0)
    method = DHPF(ResNet(depth).for_inference())
    total = len(method.backbone.channels)
    on = [round(index * (total - 1) / (count - 1)) for index in range(count)]
    method.gates = FixedGates(method.backbone.channels, on)
    return method.for_inference()


def match_images(method: DHPF, source: Tensor, target: Tensor) -> Matches:
    """Two images of one size go through the backbone together, which is faster."""
    both = method.backbone(torch.stack([source, target]))
    a, b = (
        Features(
            {n: block[side].permute(1, 2, 0) for n, block in both.items()},
            {n: block[side].mean((1, 2)) for n, block in both.items()},
            method.backbone.grid((source.shape[2], source.shape[1])),
        )
        for side in (0, 1)
    )
    return method.match(a, b)


@torch.no_grad()
def literal_match(method: DHPF, a: Features, b: Features) -> None:
    """Everything after the backbone by the literal method."""
    on = method.gates([(a.pooled[n] + b.pooled[n])[None] for n in method.layers]).on[0]
    layers = on.nonzero().flatten().tolist()
    source, target = ([method.transform(n, side.blocks[n]) for n in layers] for side in (a, b))
    literal.match(source, target, a.grid, b.grid)


def interleaved(ways: dict[str, Callable[[], Any]], rounds: int) -> dict[str, dict[str, float]]:
    """Milliseconds of each way, timed in turn: median and minimum."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for index in range(rounds + 1):
        for name, way in ways.items():
            gc.collect()
            start = time.perf_counter()
            way()
            if index > 0:  # the first round warms up
                times[name].append(1e3 * (time.perf_counter() - start))
    return {n: {"median": statistics.median(t), "minimum": min(t)} for n, t in times.items()}


@torch.no_grad()
def measure(depth: int, on: int, size: int, rounds: int) -> dict[str, Any]:
    """One network at one size."""
    method = method_with(depth, on)
    generator = torch.Generator().manual_seed(1)
    source, target = (torch.randn(3, size, size, generator=generator) for _ in range(2))
    pair = torch.stack([source, target])
    a, b = method.features(source), method.features(target)
    ways: dict[str, Callable[[], Any]] = {
        "backbone": lambda: method.backbone(pair),
        "fast": lambda: match_images(method, source, target),
        "fast, features cached": lambda: method.match(a, b),
    }
    if size <= LITERAL_LARGEST:
        ways["literal, features cached"] = lambda: literal_match(method, a, b)
    times = interleaved(ways, rounds)
    median = {name: t["median"] for name, t in times.items()}
    result: dict[str, Any] = {
        "backbone": f"resnet{depth}",
        "layers_on": on,
        "size": size,
        "milliseconds": times,
    }
    result["after_backbone_over_backbone"] = median["fast, features cached"] / median["backbone"]
    result["whole_minus_backbone_over_backbone"] = median["fast"] / median["backbone"] - 1
    if "literal, features cached" in median:
        result["literal_over_fast_after_backbone"] = (
            median["literal, features cached"] / median["fast, features cached"]
        )
    result["peak_megabytes_above_model"] = peak_of_match(depth, on, size)
    return result


def main() -> None:
    """Measure, print, record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--sizes", type=int, nargs="+", default=[160, 240, 320, 480])
    arguments = parser.parse_args()
    table = Table(title="Milliseconds (median) and ratios")
    headings = "network size backbone fast cached literal after/backbone literal/fast(after) peak-MB"
    for heading in headings.split():
        table.add_column(heading, justify="right")
    results = []
    for depth, on in ((50, 8), (101, 17)):
        for size in arguments.sizes:
            r = measure(depth, on, size, arguments.rounds)
            results.append(r)
            ms = {name: f"{t['median']:.0f}" for name, t in r["milliseconds"].items()}
            shown = "backbone", "fast", "fast, features cached", "literal, features cached"
            times = [ms.get(name, "-") for name in shown]
            slower = r.get("literal_over_fast_after_backbone")
            ratios = [f"{r['after_backbone_over_backbone']:.2f}", f"{slower:.1f}" if slower else "-"]
            table.add_row(
                f"resnet{depth}, {on} on",
                str(size),
                *times,
                *ratios,
                f"{r['peak_megabytes_above_model']:.0f}",
            )
            print(f"resnet{depth} at {size}: done")
    Console().print(table)
    save_result("speed", f"python -m benchmarks.speed --rounds {arguments.rounds}", results)


if __name__ == "__main__":
    main()
