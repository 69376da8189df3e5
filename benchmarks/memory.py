"""Peak memory of one match above the loaded model, in a process of its own.

python -m benchmarks.memory 50 8 240
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path


def resident_megabytes() -> float:
    """Memory of this process now."""
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * 4096 / 2**20


def peak_of_match(depth: int, on: int, size: int) -> float:
    """Run :func:`main` in a fresh process and read its figure."""
    words = [sys.executable, "-m", "benchmarks.memory", str(depth), str(on), str(size)]
    return float(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def main(depth: int, on: int, size: int) -> None:
    """Match two images while a thread watches the memory; print the largest growth in megabytes."""
    import torch

    from benchmarks.speed import match_images, method_with

    method = method_with(depth, on)
    generator = torch.Generator().manual_seed(1)
    small = torch.randn(3, 64, 64, generator=generator)
    match_images(method, small, small)  # loads libraries and compiled code, which belong to the program
    source, target = (torch.randn(3, size, size, generator=generator) for _ in range(2))
    before = resident_megabytes()
    peak, done = [before], threading.Event()

    def watch() -> None:
        while not done.is_set():
            peak[0] = max(peak[0], resident_megabytes())
            time.sleep(0.001)

    watcher = threading.Thread(target=watch)
    watcher.start()
    for _ in range(3):
        match_images(method, source, target)
    done.set()
    watcher.join()
    print(f"{peak[0] - before:.1f}")


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:4]))
