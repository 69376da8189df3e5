"""Where the points lie that nobody chose: of `dhpf match A B`, on the object or beside it.

    python -m benchmarks.first_picture PF-PASCAL

For PF-PASCAL's validation pairs that share no image with its test pairs: the fraction of the automatic points
outside the source object's box, and of their matches outside the target object's; and how many points a
picture has.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.record import save_result
from dhpf import load
from dhpf.data import open_dataset
from dhpf.zoo import DEFAULT_MODEL


def outside(points: NDArray[np.float64], box: NDArray[np.float64]) -> int:
    """How many points are."""
    return int(((points < box[:2]) | (points > box[2:])).any(1).sum())


def main() -> None:
    """Match, count, record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("root", type=Path)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--every", type=int, default=1, help="of so many pairs, one")
    arguments = parser.parse_args()
    test = open_dataset("pf-pascal", arguments.root, "test").entries
    barred = {path.name for entry in test for path in (entry.source, entry.target)}
    pairs = open_dataset("pf-pascal", arguments.root, "val")
    kept = [k for k, e in enumerate(pairs.entries) if not barred & {e.source.name, e.target.name}]
    matcher = load(arguments.model)
    of_source = of_target = points = 0
    for index in kept[:: arguments.every]:
        pair = pairs[index]
        match = matcher.match(pair.source.image(), pair.target.image(), scores=False)
        chosen = match.keypoints()
        points += len(chosen)
        if pair.source.box is None or pair.target.box is None:
            raise SystemExit(f"{pair.source.path}: no box")
        of_source += outside(chosen, pair.source.box)
        of_target += outside(match.transfer(chosen), pair.target.box)
    count = len(kept[:: arguments.every])
    result = {
        "model": arguments.model,
        "pairs": count,
        "points_a_picture": round(points / count, 1),
        "outside_source_box_percent": round(100 * of_source / points, 1),
        "outside_target_box_percent": round(100 * of_target / points, 1),
    }
    print(result)
    save_result(
        "first_picture", f"python -m benchmarks.first_picture PF-PASCAL --model {arguments.model}", result
    )


if __name__ == "__main__":
    main()
