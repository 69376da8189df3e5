"""What 8 bits and mirrored targets change, on the held-out pairs of SPair-71k.

    python -m benchmarks.dinov2_variants DATA dinov2_vits14.safetensors HEAD

The second argument holds the backbone's weights before they were rounded to 8 bits, the third a head that has
not learned from these pairs: that of the recipe ``dinov2-small``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from benchmarks.evaluate import open_pairs
from benchmarks.record import save_result
from dhpf import ImageFeatures, Matcher, load
from dhpf.data.pairs import PairDataset, Photo
from dhpf.evaluate.metrics import photo_pck
from dhpf.evaluate.protocol import protocol_for

ALPHAS = (0.05, 0.1)


def pck(matcher: Matcher, pairs: PairDataset) -> tuple[list[float], float]:
    """In percent at each alpha, and the fraction of pairs that were flipped."""
    seen: dict[Path, ImageFeatures] = {}

    def features(photo: Photo) -> ImageFeatures:
        return seen.setdefault(photo.path, seen.get(photo.path) or matcher.features(photo.path))

    found, flipped = [], []
    for index in range(len(pairs)):
        pair = pairs[index]
        match = matcher.match(features(pair.source), features(pair.target), scores=False)
        points = pair.source.points.clip(-0.5, np.array(pair.source.size) - 0.5)
        found.append(photo_pck(pair.target, match.transfer(points), protocol_for(pairs.name), ALPHAS))
        flipped.append(match.flipped)
    return [round(float(value), 1) for value in np.mean(found, axis=0)], round(float(np.mean(flipped)), 3)


def main() -> None:
    """Match, record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("weights", type=Path)
    parser.add_argument("head", type=Path)
    arguments = parser.parse_args()
    pairs = open_pairs("spair-71k", arguments.data)
    variants = {
        "as shipped": load(arguments.head),
        "weights before rounding": load(arguments.head, backbone=arguments.weights),
        "flip auto": load(arguments.head, flip="auto"),
    }
    result = {}
    for name, matcher in variants.items():
        figures, flipped = pck(matcher, pairs)
        result[name] = {"pck": dict(zip(map(str, ALPHAS), figures, strict=True)), "flipped": flipped}
        print(name, result[name], flush=True)
    command = "python -m benchmarks.dinov2_variants DATA WEIGHTS HEAD"
    save_result("dinov2_variants", command, {"pairs": len(pairs), **result})


if __name__ == "__main__":
    main()
