"""Which trained model is best on held-out pairs: that one is the default.

    dhpf train recipes/resnet50-strong.toml --set data.holdout=0.2 --set data.validation_pairs=300 --out RUN
    python -m benchmarks.default_model DATA --instead resnet50-strong=RUN/best.safetensors

Each model matches as it does for its users. The pairs are those that the recipe of ``resnet50-strong-wide``
holds out, of PF-PASCAL and of SPair-71k. ``resnet50-strong`` learned from most of their keypoints, so a
head of the same recipe that holds out the same pairs of PF-PASCAL can be judged instead of it. The record
says of how many pairs each has seen photos, the weak model without keypoints: such figures are too high.
The head that was judged instead for the record in ``results`` was trained with the code of b3a0a93.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from dhpf.model.models import MODELS

from benchmarks.record import save_result
from dhpf import Matcher, load
from dhpf.data.pairs import PairDataset
from dhpf.evaluate.provenance import training_images
from dhpf.train.recipe import read_recipe
from dhpf.train.sources import open_sources
from dhpf.train.validate import points_pck

RECIPE = Path(__file__).parent.parent / "recipes" / "resnet50-strong-wide.toml"


def main() -> None:
    """Validate and record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    trained = [name for name, entry in MODELS.items() if entry.training is not None]
    parser.add_argument("--models", nargs="+", choices=trained, default=trained)
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
        print(name, result[name], "trained on photos of", known[name], flush=True)
    best = max(result, key=lambda name: result[name]["mean"])
    pairs = {f"{part.name}/{part.split}": len(part) for part in held_out}
    command = f"python -m benchmarks.default_model DATA --models {' '.join(arguments.models)}"
    if instead:
        command += " --instead " + " ".join(f"{name}=RUN/{Path(head).name}" for name, head in instead.items())
    found = {"pairs": pairs, "seen_photos_of": known, "pck_0.1": result, "best": best}
    save_result("default_model", command, found)


def mean_pck(matcher: Matcher, pairs: PairDataset) -> float:
    """At 0.1, in percent, under the data set's own kind of threshold."""
    found = []
    for index in range(len(pairs)):
        pair = pairs[index]
        match = matcher.match(pair.source.image(), pair.target.image(), evidence=False)
        predicted = match.transfer(pair.source.points.clip(0, pair.source.size))
        scale = np.array(matcher.size) / pair.target.size
        found.append(points_pck(pair, predicted * scale, matcher.size, pairs.name))
    return float(np.mean(found))


if __name__ == "__main__":
    main()
