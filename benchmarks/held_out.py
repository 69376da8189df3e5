"""How good each model is on held-out pairs: the best is the default; and what its confidences mean.

    python -m benchmarks.held_out DATA

The pairs are those that the recipe of ``dinov2-small`` holds out, of PF-PASCAL, SPair-71k and VOC keypoints.
No model of the package has learned from their keypoints, except where the record says so: it counts the pairs
of which a model has seen an image. For each model a monotone map from its confidences to the fraction that is
right within a tenth of the object's box goes into its card; ``python docs/tools/charts.py`` draws how
well that map holds.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from benchmarks.model_times import bundled_models
from benchmarks.record import run, save_result
from benchmarks.table1 import on_shared_backbones
from dhpf import Matcher
from dhpf.data.pairs import PairDataset
from dhpf.evaluate.metrics import photo_pck
from dhpf.evaluate.protocol import protocol_for
from dhpf.train.recipe import read_recipe
from dhpf.train.sources import open_sources
from dhpf.zoo import MODELS, Calibration, models, record_calibration, training_images

RECIPE = "dinov2-small"
ALPHAS = (0.05, 0.1)
BINS = 20  # of equal numbers of points, for the map

Floats = NDArray[np.float64]


class Judged(NamedTuple):
    """A model on one data set."""

    pck: Floats  # (pairs, alphas) in percent, under the data set's own kind of threshold
    confidence: Floats  # (points,) as the method has it
    right: Floats  # (points,) 1 within a tenth of the object's box


def main() -> None:
    """Match, record, calibrate."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--models", nargs="+", choices=[*models()], default=bundled_models())
    arguments = parser.parse_args()
    config = read_recipe(RECIPE, [f"data.root={arguments.data}"])
    held_out = open_sources(config.data, config.run.seed, needs_points=True).validation
    judged: dict[str, dict[str, Judged]] = {}
    for group in on_shared_backbones(arguments.models):
        for part in held_out:
            for name, found in judge(group, part).items():
                judged.setdefault(name, {})[f"{part.name}/{part.split}"] = found
    pairs = {f"{part.name}/{part.split}": len(part) for part in held_out}
    for name in arguments.models:
        parts = list(judged[name].values())
        means = {key: found.pck.mean(0) for key, found in judged[name].items()}
        means["mean"] = np.mean(list(means.values()), axis=0)
        record_calibration(MODELS / f"{name}.json", calibrated(parts))
        reliability = reliability_of(parts)
        seen = set(training_images(name) or ())
        known = {
            f"{part.name}/{part.split}": sum(
                bool(seen & {entry.source.name, entry.target.name}) for entry in part.entries
            )
            for part in held_out
        }
        result = {
            "pairs": pairs,
            "pairs_of_which_an_image_was_trained_on": known,
            "alphas": ALPHAS,
            "pck": {key: [round(float(v), 1) for v in value] for key, value in means.items()},
            "calibration_error": error_of(reliability),
            "reliability": reliability,
        }
        print(name, result["pck"], "trained on images of", known, flush=True)
        save_result(f"held_out_{name}", f"python -m benchmarks.held_out DATA --models {name}", result)


def judge(matchers: Mapping[str, Matcher], pairs: PairDataset) -> dict[str, Judged]:
    """Match all pairs with all models, pair by pair: what they share of a backbone is computed once."""
    protocol = protocol_for(pairs.name)
    rows: dict[str, list[tuple[Floats, Floats, Floats]]] = {name: [] for name in matchers}
    for index in range(len(pairs)):
        pair = pairs[index]
        images = pair.source.image(), pair.target.image()
        points = pair.source.points.clip(-0.5, np.array(pair.source.size) - 0.5)
        box = pair.target.box
        if box is None:  # then the points' own
            box = np.concatenate([pair.target.points.min(0), pair.target.points.max(0)])
        for name, matcher in matchers.items():
            matcher.calibration = None
            match = matcher.match(*images, scores=False)
            predicted = match.transfer(points)
            error = np.linalg.norm(predicted - pair.target.points, axis=1)
            right = (error <= 0.1 * max(box[2:] - box[:2])).astype(float)
            pck = photo_pck(pair.target, predicted, protocol, ALPHAS)
            rows[name].append((pck, match.confidence_at(points), right))
    return {
        name: Judged(
            np.array([pck for pck, _, _ in found]),
            *(np.concatenate(c) for c in [*zip(*found, strict=True)][1:]),
        )
        for name, found in rows.items()
    }


def calibrated(parts: Sequence[Judged]) -> Calibration:
    """The map: bins of equal numbers of points, their fractions made monotone."""
    confidence, right = (
        np.concatenate([getattr(part, key) for part in parts]) for key in ("confidence", "right")
    )
    order = np.argsort(confidence, kind="stable")
    bins = [part for part in np.array_split(order, BINS) if len(part)]
    where = np.array([confidence[part].mean() for part in bins])
    fraction = isotonic_regression(np.array([right[part].mean() for part in bins])).x
    where, first = np.unique(where.round(6), return_index=True)
    return Calibration(tuple(where.tolist()), tuple(fraction[first].round(4).tolist()))


def reliability_of(parts: Sequence[Judged]) -> list[dict[str, float]]:
    """Ten bins of confidence: points, their mean confidence, and the fraction that is right.

    Each half of the points is judged by the map of the other half: a map always fits its own points.
    """
    meant, right = [], []
    for half in (0, 1):
        mine, others = (
            [Judged(p.pck, p.confidence[start::2], p.right[start::2]) for p in parts]
            for start in (half, 1 - half)
        )
        known = calibrated(others)
        meant += [np.interp(p.confidence, known.confidence, known.right) for p in mine]
        right += [p.right for p in mine]
    confidence, hit = np.concatenate(meant), np.concatenate(right)
    which = np.minimum((confidence * 10).astype(int), 9)
    return [
        {
            "points": int((which == k).sum()),
            "confidence": round(float(confidence[which == k].mean()), 4),
            "right": round(float(hit[which == k].mean()), 4),
        }
        for k in sorted(set(which.tolist()))
    ]


def error_of(bins: Sequence[dict[str, float]]) -> float:
    """In percent: the mean difference between confidence and fraction, every point counting the same."""
    total = sum(one["points"] for one in bins)
    gaps = sum(one["points"] * abs(one["confidence"] - one["right"]) for one in bins)
    return round(100 * gaps / total, 1)


if __name__ == "__main__":
    run(main)
