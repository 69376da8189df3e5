"""What each model costs: seconds for two new photos, seconds with features at hand, peak memory.

    python -m benchmarks.model_times

All models in one run, in turns, so that they share whatever else the machine does; medians. The backbone's
own time for the two photos is measured in the same turns. Memory is that of a process that matches one pair.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.record import RESULTS, commit, machine, save_result
from dhpf import Matcher, load, sample
from dhpf.backbones.weights import BACKBONES
from dhpf.images import read_image, to_input
from dhpf.zoo import MODELS, Cost, models, record_cost

ONE_PAIR = """
import pathlib, dhpf
dhpf.load({model!r}).match(dhpf.sample("cheetah"), dhpf.sample("cheetah_cub"), scores=False)
peak = next(line for line in pathlib.Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)
print(int(peak.split()[1]) // 1024)  # ru_maxrss would begin at what the parent had
"""


def seconds(work: Callable[[], object]) -> float:
    """Of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def kinds(matcher: Matcher) -> dict[str, Callable[[], object]]:
    """What is timed."""
    a, b = (read_image(sample(name)) for name in ("cheetah", "cheetah_cub"))
    backbone = matcher.method.backbone
    inputs = [to_input(photo, matcher.size, backbone.mean, backbone.std) for photo in (a, b)]
    seen_a, seen_b = matcher.features(a), matcher.features(b)
    layers = matcher.method.layers
    return {
        "new_photos": lambda: matcher.match(a, b, scores=False),
        "features_at_hand": lambda: matcher.match(seen_a, seen_b, scores=False),
        "backbone": lambda: [backbone(one, layers) for one in inputs],
    }


def bundled_models() -> list[str]:
    """Those that need no download."""
    return [name for name, card in models().items() if BACKBONES[card.backbone].bundled]


def main() -> None:
    """Time and record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=[*models()], default=bundled_models())
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    record_times(model_times(arguments.models, arguments.rounds), "python -m benchmarks.model_times")


def record_times(times: dict[str, Any], command: str, folder: Path = RESULTS) -> None:
    """In a file of results, and in the models' cards if that is where the others are."""
    save_result("model_times", command, times, folder)
    about = machine()
    where = f"{about['processor']}, {about['cores']} cores"
    for name, found in times.items() if folder == RESULTS else ():
        taken = found["new_photos"], found["features_at_hand"], found["peak_memory_mb"]
        record_cost(MODELS / f"{name}.json", Cost(*taken, where, commit()))


def model_times(names: Sequence[str], rounds: int) -> dict[str, Any]:
    """Of all these models, measured in turns."""
    work = {name: kinds(load(name)) for name in names}
    times: dict[str, dict[str, list[float]]] = {
        name: {kind: [] for kind in parts} for name, parts in work.items()
    }
    with torch.no_grad():
        for turn in range(rounds + 1):
            for name, parts in work.items():
                for kind, call in parts.items():
                    taken = seconds(call)
                    if turn:  # the first compiles and warms up
                        times[name][kind].append(taken)
    result: dict[str, Any] = {}
    for name, taken_by in times.items():
        found = {kind: statistics.median(values) for kind, values in taken_by.items()}
        faster = found["new_photos"] / found["features_at_hand"]
        program = ONE_PAIR.format(model=name)
        memory = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        result[name] = {
            **{kind: round(value, 3) for kind, value in found.items()},
            "times_as_fast_with_features": round(faster, 1),
            "peak_memory_mb": int(memory.stdout),
        }
        if BACKBONES[models()[name].backbone].source:  # there is a network
            result[name]["rest_over_backbone"] = round(found["new_photos"] / found["backbone"] - 1, 3)
        print(name, result[name], flush=True)
    return result


if __name__ == "__main__":
    main()
