"""Label transfer: how accurate with 1, 2, 4, 8 references, how fast, and the same after every kill.

    python -m benchmarks.annotate DATA accuracy
    python -m benchmarks.annotate DATA speed

DATA holds a COCO keypoints file, ``annotations.json``, and its photos. ``accuracy``: of each category, eight
references are drawn by seed from its best annotated objects and all others are held out. PCK at 0.1 of the
longer side of the box, inside the box. ``speed``: one reference of each category to 1,000 photos by the
command line: seconds a photo and peak memory; then killed at random ten times and restarted: the same file.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import save_result
from dhpf.annotate.annotations import Annotations
from dhpf.annotate.photos import Place, Reference, references_of
from dhpf.annotate.transfer import Annotator, View, see
from dhpf.feature_cache import FeatureCache
from dhpf.matcher import ImageFeatures, Matcher, load

CATEGORIES = ("aeroplane", "bicycle", "car", "cat", "horse")
COUNTS = (1, 2, 4, 8)
ALPHA = 0.1
LEAST = 5  # keypoints that a held-out object shows
KILLS = 10


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("what", choices=["accuracy", "speed"])
    parser.add_argument("--model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, default=None, help="held-out objects a category; photos")
    given = parser.parse_args()
    annotations = Annotations.read(given.data / "annotations.json")
    command = f"python -m benchmarks.annotate DATA {given.what}"
    if given.what == "accuracy":
        matcher = load() if given.model is None else load(given.model)
        result = accuracy(annotations, given.data, matcher, given.seed, given.limit)
    else:
        result = speed(annotations, given.data, given.model, given.seed, given.limit or 1000)
    if given.limit is None:
        save_result(f"annotate_{given.what}", command, result)


def draw(annotations: Annotations, data: Path, category: str, seed: int) -> list[Reference]:
    """The objects of a category that show enough keypoints, in an order of the seed; references first.

    The references are drawn from the half with most keypoints, as people choose clear examples.
    """
    found = [one for one in references_of(annotations, [data]) if one.object.category.name == category]
    found = [one for one in found if one.object.shown.sum() >= LEAST]
    rng = random.Random(f"{seed} {category}")
    rng.shuffle(found)
    rich = sorted(found, key=lambda one: -int(one.object.shown.sum()))[: max(len(found) // 2, COUNTS[-1])]
    first = [one for one in found if any(one is other for other in rich)][: COUNTS[-1]]
    taken = {one.path for one in first}
    return first + [one for one in found if one.path not in taken]


def accuracy(annotations: Annotations, data: Path, matcher: Matcher, seed: int, limit: int | None) -> Any:
    """PCK of each category and number of references, and its mean."""
    table: dict[str, Any] = {}
    for category in CATEGORIES:
        objects = draw(annotations, data, category, seed)
        references, held_out = objects[: COUNTS[-1]], objects[COUNTS[-1] :][:limit]
        seen: FeatureCache[View, ImageFeatures] = FeatureCache(lambda view: see(matcher, view), 2**31)
        row: dict[str, float] = {"held out": len(held_out)}
        for count in COUNTS:
            annotator = Annotator(matcher, references[:count], features=seen.get)
            right = np.concatenate([judge(annotator, one) for one in held_out])
            row[str(count)] = round(100 * float(right.mean()), 1)
        table[category] = row
        print(category, row, flush=True)
    mean = {
        str(count): round(float(np.mean([row[str(count)] for row in table.values()])), 1) for count in COUNTS
    }
    print("mean", mean, flush=True)
    return {
        "model": matcher.name,
        "size": matcher.size,
        "alpha": ALPHA,
        "seed": seed,
        "pck": table,
        "mean": mean,
    }


def judge(annotator: Annotator, truth: Reference) -> Any:
    """Which keypoints are right, of those that the object shows."""
    box = truth.object.bounds()
    assert box is not None
    found = annotator.label(truth.path, truth.size, Place(truth.object.category.name, box))
    shown = truth.object.shown
    error = np.linalg.norm(found.keypoints[shown, :2] - truth.object.keypoints[shown, :2], axis=1)
    return (error <= ALPHA * (box[2:] - box[:2]).max()) & found.shown[shown]


def speed(annotations: Annotations, data: Path, model: str | None, seed: int, count: int) -> Any:
    """Seconds a photo, peak memory; killed and restarted."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        chosen = annotations.images[:count]
        firsts = {
            image.objects[0].category.name: image for image in reversed(annotations.images) if image.objects
        }
        only_boxes = tuple(
            replace(image, objects=tuple(replace(one, keypoints=one.keypoints * 0) for one in image.objects))
            for image in chosen
        )
        replace(annotations, images=tuple(firsts.values())).save(folder / "references.json")
        replace(annotations, images=only_boxes).save(folder / "boxes.json")
        command = [sys.executable, "-m", "dhpf", "annotate", "references.json", "boxes.json"]
        command += ["--images", str(data.resolve()), *(["--model", model] if model else [])]

        begin = time.monotonic()
        subprocess.run([*command, "--out", "alone.json"], cwd=folder, check=True)
        seconds = time.monotonic() - begin
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        objects = sum(len(image.objects) for image in chosen)
        result = {
            "photos": len(chosen),
            "objects": objects,
            "seconds": round(seconds, 1),
            "seconds_a_photo": round(seconds / len(chosen), 3),
            "peak_mb": round(peak),
        }
        print(result, flush=True)
        killed = kill_and_restart([*command, "--out", "killed.json"], folder, seconds, random.Random(seed))
        same = (folder / "alone.json").read_bytes() == (folder / "killed.json").read_bytes()
        result |= {"kills": killed, "same_file": same}
        print(json.dumps(result), flush=True)
        return result


def kill_and_restart(command: list[str], folder: Path, seconds: float, rng: random.Random) -> int:
    """Start, kill after a random part of a tenth of the time, start again; at the end leave it alone."""
    kills = 0
    for _ in range(KILLS):
        process = subprocess.Popen(command, cwd=folder)
        try:
            process.wait(timeout=rng.uniform(0.5, 1.5) * seconds / KILLS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
    subprocess.run(command, cwd=folder, check=True)
    return kills


if __name__ == "__main__":
    main()
