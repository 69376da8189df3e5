"""Which trained model is best on held-out pairs: that one is the default.

    dhpf train resnet50-strong --set data.holdout=0.2 --set data.validation_pairs=300 --out RUN
    python -m benchmarks.held_out DATA --instead resnet50-strong=RUN/best.safetensors

Each model matches as it does for its users. The pairs are those that the recipe of ``resnet50-strong-wide``
holds out, of PF-PASCAL and of SPair-71k. ``resnet50-strong`` learned from most of their keypoints, so a
head of the same recipe that holds out the same pairs of PF-PASCAL can be judged instead of it. The record
says of how many pairs each has seen images, the weak model without keypoints: such figures are too high.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from benchmarks.record import save_result
from dhpf import Matcher, load
from dhpf.data.pairs import PairDataset
from dhpf.evaluate.metrics import photo_pck
from dhpf.evaluate.protocol import protocol_for
from dhpf.train.recipe import read_recipe
from dhpf.train.sources import open_sources
from dhpf.zoo import models, training_images

RECIPE = "resnet50-strong-wide"
ALPHA = 0.1


def main() -> None:
    """Validate and record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    trained = [name for name, card in models().items() if card.training is not None]
    parser.add_argument("--models", nargs="+", choices=[*models()], default=trained)
    parser.add_argument("--instead", metavar="MODEL=HEAD", nargs="*", default=[])
    arguments = parser.parse_args()
    instead = dict(one.split("=", 1) for one in arguments.instead)
    config = read_recipe(RECIPE, [f"data.root={arguments.data}"])
    held_out = open_sources(config.data, config.run.seed, needs_points=True).validation
    result, known = {}, {}
    for name in arguments.models:
        head = instead.get(name, name)
        matcher = load(head)
        scores = {f"{part.name}/{part.split}": mean_pck(matcher, part) for part in held_out}
        scores["mean"] = float(np.mean(list(scores.values())))
        result[name] = {key: round(value, 1) for key, value in scores.items()}
        seen = set(training_images(head) or ())
        known[name] = {
            f"{part.name}/{part.split}": sum(
                bool(seen & {entry.source.name, entry.target.name}) for entry in part.entries
            )
            for part in held_out
        }
        print(name, result[name], "trained on images of", known[name], flush=True)
    best = max(result, key=lambda name: result[name]["mean"])
    pairs = {f"{part.name}/{part.split}": len(part) for part in held_out}
    command = f"python -m benchmarks.held_out DATA --models {' '.join(arguments.models)}"
    if instead:
        command += " --instead " + " ".join(f"{name}=RUN/{Path(head).name}" for name, head in instead.items())
    found = {"pairs": pairs, "seen_images_of": known, "pck_0.1": result, "best": best}
    save_result("held_out", command, found)


def mean_pck(matcher: Matcher, pairs: PairDataset) -> float:
    """At 0.1, in percent, under the data set's own kind of threshold."""
    protocol = protocol_for(pairs.name)
    found = []
    for index in range(len(pairs)):
        pair = pairs[index]
        match = matcher.match(pair.source.image(), pair.target.image(), scores=False)
        points = pair.source.points.clip(-0.5, np.array(pair.source.size) - 0.5)
        found.append(photo_pck(pair.target, match.transfer(points), protocol, [ALPHA])[0])
    return float(np.mean(found))


if __name__ == "__main__":
    main()
