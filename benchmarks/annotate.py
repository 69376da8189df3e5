"""Label transfer: how accurate with 1, 2, 4, 8 references, how fast, and the same after every kill.

    python -m benchmarks.annotate DATA accuracy
    python -m benchmarks.annotate DATA speed

DATA holds a COCO keypoints file, ``annotations.json``, and its photos.

``accuracy``: of each category, eight references are drawn by seed from its best annotated objects, and 20
others are labelled inside their boxes. Which of the eight are the first one, two or four is taken in turn.
PCK at 0.1 of the longer side of the box; a keypoint that no reference shows counts as wrong. A trained model
may have learned from these photos: the record counts them, and has a row of those that it has not seen, of
any category.

``speed``: one reference of each category to 1,000 photos by the command line: seconds a photo and peak
memory; then killed at random ten times and restarted: the same file. It takes an hour or more. Begun again in
the same folder, it goes on with what is finished there.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.record import save_result
from dhpf.annotate.annotations import Annotations
from dhpf.annotate.photos import Place, Reference, references_of
from dhpf.annotate.transfer import Annotator, View, Vote, see
from dhpf.feature_cache import FeatureCache
from dhpf.matcher import ImageFeatures, Matcher, load
from dhpf.zoo import training_images

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
    parser.add_argument("--folder", type=Path, default=Path("annotate_speed"), help="where speed works")
    given = parser.parse_args()
    annotations = Annotations.read(given.data / "annotations.json")
    command = f"python -m benchmarks.annotate DATA {given.what}"
    if given.what == "accuracy":
        matcher = load() if given.model is None else load(given.model)
        result = accuracy(annotations, given.data, matcher, given.seed, given.limit or 20)
    else:
        result = speed(
            annotations, given.data, given.model, given.seed, given.limit or 1000, given.folder.resolve()
        )
    if given.limit is None:
        save_result(f"annotate_{given.what}", command, result)


class Remembering(Annotator):
    """Asks each reference once about an object, however many references vote."""

    def _vote(self, reference: Reference, target: ImageFeatures, view: View) -> Vote:
        if view != self.last:
            self.last, self.known = view, dict[int, Vote]()
        if id(reference) not in self.known:
            self.known[id(reference)] = super()._vote(reference, target, view)
        return self.known[id(reference)]

    last: View | None = None


class Judged(NamedTuple):
    """A held-out object: what is right with each number of references."""

    seen: bool  # its photo, when the model was trained
    right: NDArray[np.bool_]  # (counts, orders of the references, keypoints that the object shows)
    first: NDArray[np.bool_]  # (orders, keypoints) that the first reference shows, too


def draw(objects: Sequence[Reference], category: str, seed: int) -> tuple[list[Reference], list[Reference]]:
    """The references of a category, and all its objects of other photos, in an order of the seed.

    The references are drawn from the half with most keypoints, as people choose clear examples.
    """
    found = [one for one in objects if one.object.category.name == category]
    random.Random(f"{seed} {category}").shuffle(found)
    rich = sorted(found, key=lambda one: -int(one.object.shown.sum()))[: max(len(found) // 2, COUNTS[-1])]
    references = [one for one in found if any(one is other for other in rich)][: COUNTS[-1]]
    taken = {one.path for one in references}
    return references, [one for one in found if one.path not in taken]


def accuracy(annotations: Annotations, data: Path, matcher: Matcher, seed: int, limit: int) -> Any:
    """PCK of each number of references: by category, and in photos that the model's training has not seen."""
    trained_on = set(training_images(matcher.name) or ())
    objects = [one for one in references_of(annotations, [data]) if one.object.shown.sum() >= LEAST]
    table: dict[str, Any] = {}
    unseen: list[Judged] = []
    others = sorted({one.object.category.name for one in objects} - set(CATEGORIES))
    for category in (*CATEGORIES, *others):
        references, held_out = draw(objects, category, seed)
        held_out.sort(key=lambda one: one.path.name in trained_on)
        if category in others:
            held_out = [one for one in held_out if one.path.name not in trained_on]
        cache: FeatureCache[View, ImageFeatures] = FeatureCache(lambda view: see(matcher, view), 2**28)
        annotator = Remembering(matcher, references, features=cache.get)
        judged = [judge(annotator, one, one.path.name in trained_on) for one in held_out[:limit]]
        unseen += [one for one in judged if not one.seen]
        if category in CATEGORIES:
            table[category] = figures(judged)
            print(category, table[category], flush=True)
    columns = [*map(str, COUNTS), *(f"{count} (keypoints of the first)" for count in COUNTS)]
    mean = {key: round(float(np.mean([row[key] for row in table.values()])), 1) for key in columns}
    result = {"mean": mean, "photos that training has not seen": figures(unseen)}
    print(result, flush=True)
    setting = {"model": matcher.name, "size": matcher.size, "alpha": ALPHA, "seed": seed}
    return {**setting, "pck": table, **result}


def judge(annotator: Annotator, truth: Reference, seen: bool) -> Judged:
    """Label a held-out object inside its box with 1, 2, 4, 8 references, each of which is once the first."""
    box = truth.object.bounds()
    assert box is not None
    shown, references = truth.object.shown, annotator.references
    orders = [references[k:] + references[:k] for k in range(len(references))]

    def right(chosen: list[Reference]) -> NDArray[np.bool_]:
        annotator.references = chosen
        found = annotator.label(truth.path, truth.size, Place(truth.object.category.name, box))
        error = np.linalg.norm(found.keypoints[shown, :2] - truth.object.keypoints[shown, :2], axis=1)
        near: NDArray[np.bool_] = error <= ALPHA * (box[2:] - box[:2]).max()
        return near & found.shown[shown]

    judged = np.array([[right(order[:count]) for order in orders] for count in COUNTS])
    annotator.references = references
    return Judged(seen, judged, np.array([order[0].object.shown[shown] for order in orders]))


def figures(judged: Sequence[Judged]) -> dict[str, float]:
    """PCK in percent over all keypoints of all objects; also over those that the first reference shows."""
    right = np.concatenate([one.right for one in judged], axis=-1)
    first = np.concatenate([one.first for one in judged], axis=-1)
    sizes = {"objects": len(judged), "in photos that training saw": sum(one.seen for one in judged)}
    pck = {str(count): row.mean() for count, row in zip(COUNTS, right, strict=True)}
    same = {
        f"{count} (keypoints of the first)": row[first].mean()
        for count, row in zip(COUNTS, right, strict=True)
    }
    return {
        **sizes,
        "keypoints": right.shape[-1],
        **{key: round(100 * float(value), 1) for key, value in {**pck, **same}.items()},
    }


def speed(
    annotations: Annotations, data: Path, model: str | None, seed: int, count: int, folder: Path
) -> Any:
    """Seconds a photo, peak memory; killed and restarted. Run again in the same folder, it goes on."""
    folder.mkdir(exist_ok=True)
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

    figures = folder / "alone_figures.json"
    if not figures.exists():
        (folder / "alone.json.run-0").unlink(missing_ok=True)  # half a run has no time of its own
        begin = time.monotonic()
        subprocess.run([*command, "--out", "alone.json"], cwd=folder, check=True)
        seconds, used = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
        alone = {
            "photos": len(chosen),
            "objects": sum(len(image.objects) for image in chosen),
            "seconds_a_photo": round(seconds / len(chosen), 3),
            "processor_seconds_a_photo": round((used.ru_utime + used.ru_stime) / len(chosen), 3),
            "peak_mb": round(used.ru_maxrss / 1024),
        }
        figures.write_text(json.dumps(alone))
    print(figures.read_text(), flush=True)
    kills = kill_and_restart([*command, "--out", "killed.json"], folder, len(chosen), random.Random(seed))
    same = (folder / "alone.json").read_bytes() == (folder / "killed.json").read_bytes()
    result = {**json.loads(figures.read_text()), "kills": kills, "same_file": same}
    print(json.dumps(result), flush=True)
    return result


def kill_and_restart(command: list[str], folder: Path, photos: int, rng: random.Random) -> int:
    """Kill the command ten times, a moment after random numbers of photos; at the end leave it alone."""
    journal = folder / "killed.json.run-0"

    def finished() -> int:
        return max(0, journal.read_bytes().count(b"\n") - 1) if journal.exists() else 0

    kills = 0
    for target in sorted(rng.sample(range(photos), KILLS)):
        if finished() > target:  # by an earlier run of this benchmark
            continue
        process = subprocess.Popen(command, cwd=folder)
        while process.poll() is None and finished() < target:
            time.sleep(0.1)
        time.sleep(rng.uniform(0, 2))
        kills += process.poll() is None
        process.kill()
        process.wait()
    subprocess.run(command, cwd=folder, check=True)
    return kills


if __name__ == "__main__":
    main()
