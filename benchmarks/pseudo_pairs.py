"""How often keypoints that are paired by their shape alone (Procrustes pseudo-pairs) are the right ones.

    python -m benchmarks.pseudo_pairs DATA

Listed pairs say which points belong together. Here that is forgotten: their points are paired as those of
images that no list pairs, by order and shape, and what was found is compared with the list.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.record import save_result
from dhpf.data.pseudo_pairs import common_keypoints
from dhpf.data.registry import find_dataset, open_dataset
from dhpf.train.config import DataConfig

LISTS = (("pf-pascal", "val"), ("spair-71k", "trn"))


def main() -> None:
    """Pair, compare and record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    data = parser.parse_args().data
    result = {}
    for name, split in LISTS:
        dataset = open_dataset(name, data / find_dataset(name).folder, split)
        counts = {"listed": len(dataset), "paired": 0, "points": 0, "right": 0}
        for index in range(len(dataset)):
            source, target, _ = dataset.annotation(index)
            found = common_keypoints(source.points, target.points, DataConfig.pseudo_distance)
            if found is not None:
                counts["paired"] += 1
                counts["points"] += len(found[0])
                counts["right"] += int((found[0] == found[1]).sum())
        right = round(100 * counts["right"] / counts["points"], 1)
        result[f"{name}/{split}"] = counts | {"right_percent": right}
        print(name, result[f"{name}/{split}"], flush=True)
    record = {"procrustes_distance": DataConfig.pseudo_distance, "lists": result}
    save_result("pseudo_pairs", "python -m benchmarks.pseudo_pairs DATA", record)


if __name__ == "__main__":
    main()
