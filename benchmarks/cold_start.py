"""How long a person waits for the command line: help, and one match of the bundled pair.

    python -m benchmarks.cold_start

Each is a process of its own, timed in turn, beside one that only imports the libraries a match needs.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.record import save_result

ROUNDS = 7


def main() -> None:
    """Time, print, record."""
    with tempfile.TemporaryDirectory() as folder:
        picture = str(Path(folder) / "match.png")
        ways = {
            "help": ["-m", "dhpf", "--help"],
            "imports of a match": ["-c", "import torch, numba, scipy.interpolate"],
            "match": ["-m", "dhpf", "match", "--sample", "cheetahs", "--out", picture],
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        for index in range(ROUNDS + 1):
            for name, words in ways.items():
                start = time.perf_counter()
                subprocess.run([sys.executable, *words], check=True, capture_output=True)
                if index > 0:  # the first round compiles and fills the system's cache
                    times[name].append(time.perf_counter() - start)
    result = {
        name: {"median": round(statistics.median(t), 2), "minimum": round(min(t), 2)}
        for name, t in times.items()
    }
    print(result)
    save_result("cold_start", "python -m benchmarks.cold_start", {"seconds": result})


if __name__ == "__main__":
    main()
