"""Is matching as fast as at an older commit? Both versions match the same photos, in turns.

    python -m benchmarks.against 162e724 [--rounds 31]

The older commit is checked out into a folder of its own for the time. A process for each version loads its
package and matches when it is its turn, so that a busy machine is busy for both. Photos are new each time,
so the backbone is part of it. The models are those that have not changed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.record import ROOT, save_result

MODELS = ("hpf-resnet50", "resnet50-weak")

# Runs in either version, so it uses what both have: load, match, two sample photos.
WORKER = """
import sys, time
import numpy as np
from PIL import Image
import dhpf

matcher = dhpf.load(sys.argv[1])
photos = [np.array(Image.open(path).convert("RGB")) for path in sys.argv[2:]]
print("ready", flush=True)
for turn, _ in enumerate(sys.stdin, 1):
    pair = [np.roll(photo, turn, axis=1) for photo in photos]
    wall, processor = time.perf_counter(), time.process_time()
    matcher.match(*pair)
    print(time.perf_counter() - wall, time.process_time() - processor, flush=True)
"""


class Version:
    """A process that matches with the package of one checkout."""

    def __init__(self, checkout: Path, model: str) -> None:
        photos = [ROOT / "src/dhpf/assets/samples" / name for name in ("cheetah.jpg", "cheetah_cub.jpg")]
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER, model, *map(str, photos)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(checkout / "src")},
        )
        self._read()

    def match(self) -> tuple[float, float]:
        """Milliseconds of one match: on the clock, of the processor."""
        if self.process.stdin is None:
            raise SystemExit("no way to tell a process its turn")
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        wall, processor = (1e3 * float(value) for value in self._read().split())
        return wall, processor

    def close(self) -> None:
        """End the process."""
        self.process.communicate()

    def _read(self) -> str:
        line = self.process.stdout.readline() if self.process.stdout else ""
        if not line:
            raise SystemExit("a version ended early; its message is above")
        return line


def measure(old: Path, model: str, rounds: int) -> dict[str, Any]:
    """Medians of both versions, and the ratio of new to old."""
    versions = {"old": Version(old, model), "new": Version(ROOT, model)}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in versions}
    for turn in range(rounds + 1):
        for name, version in versions.items():
            found = version.match()
            if turn:  # the first round warms up
                times[name].append(found)
    for version in versions.values():
        version.close()
    result: dict[str, Any] = {}
    for column, what in enumerate(("milliseconds", "processor_milliseconds")):
        medians = {name: statistics.median(one[column] for one in found) for name, found in times.items()}
        ratio = medians["new"] / medians["old"]
        result[what] = {name: round(value, 1) for name, value in medians.items()} | {"ratio": round(ratio, 3)}
    return result


def main() -> None:
    """Check out, measure, record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commit")
    parser.add_argument("--rounds", type=int, default=31)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        old = Path(folder) / "old"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(old), given.commit], check=True)
        try:
            result = {model: measure(old, model, given.rounds) for model in MODELS}
        finally:
            subprocess.run([*git, "remove", "--force", str(old)], check=True)
    for model, found in result.items():
        print(model, found)
    command = f"python -m benchmarks.against {given.commit} --rounds {given.rounds}"
    save_result("against", command, {"old": given.commit, "models": result})


if __name__ == "__main__":
    main()
