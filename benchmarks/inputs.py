"""A small sound file of every kind that the program reads, to be damaged by the trials of its robustness."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file

from dhpf.data.mini import make_mini
from dhpf.evaluate.predictions import PairPrediction, Predictions
from dhpf.train.checkpoint import BEST, FORMAT, STATE
from dhpf.train.sealed import seal
from dhpf.zoo import MODELS, UNTRAINED

HEAD = MODELS / "resnet50-weak.safetensors"  # a trained one, of the package
RECIPE = """name = "trial"
[model]
size = [64, 64]
[data]
root = "{root}"
per_epoch = 2
validation_pairs = 2
holdout = 0.3
[run]
epochs = 2
batch = 2
save_every = 1
"""

REFERENCES = {  # of COCO's format
    "categories": [{"id": 1, "name": "thing", "keypoints": ["left", "right", "low"], "skeleton": [[1, 2]]}],
    "images": [{"id": 1, "file_name": "photos/0.png", "width": 64, "height": 48}],
    "annotations": [
        {"id": 1, "image_id": 1, "category_id": 1, "keypoints": [10, 10, 2, 50, 12, 2, 20, 35, 1]}
    ],
}


def photo(width: int, height: int, seed: int) -> Image.Image:
    """Smooth, without symmetry, different for every seed."""
    coarse = np.random.default_rng(seed).integers(0, 256, (height // 8, width // 8, 3), np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)


def predictions(model: str) -> Predictions:
    """Of four pairs of the mini PF-PASCAL, with layers."""
    random = np.random.default_rng(len(model))
    pairs = [
        PairPrediction(
            pair_id=f"pair {number}",
            category="cat",
            source_image=f"{number}a.jpg",
            target_image=f"{number}b.jpg",
            source_size=(120, 90),
            target_size=(90, 120),
            source_points=(points := random.uniform(5, 80, (4, 2))),
            predicted_points=points + random.normal(0, 4, (4, 2)),
            target_points=points,
            target_box=(0, 0, 80, 80),
            layers=random.random(17) < 0.5,
            gate_probabilities=random.random(17),
            confidences=random.random(4),
        )
        for number in range(4)
    ]
    return Predictions.of_pairs(pairs, dataset="pf-pascal", split="test", model=model, commit="c0ffee")


def make_inputs(folder: Path) -> None:
    """Write them all."""
    photos = folder / "photos"
    photos.mkdir(parents=True)
    for number, ending in enumerate(("png", "jpg", "webp", "tiff", "bmp", "gif", "ppm")):
        photo(64, 48, number).save(folder / f"{ending}.{ending}")
    for number in range(4):
        photo(64, 48, number).save(photos / f"{number}.png")
    points = [[10, 10], [50, 12], [20, 35]]
    (folder / "points.json").write_text(json.dumps(points))
    (folder / "truth.json").write_text(json.dumps({"target_points": points}))
    (folder / "references.json").write_text(json.dumps(REFERENCES))
    (folder / "points.csv").write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in points))
    names = [f"photos/{a}.png,photos/{b}.png,points.json" for a in range(3) for b in range(a + 1, 4)]
    (folder / "pairs.csv").write_text("\n".join(["source,target,points", *names, ""]))
    for name in ("p", "q"):
        predictions(name).save(folder / f"{name}.npz")
    (folder / "trained.txt").write_text("0a.jpg\nother.jpg\n")
    make_mini("pf-pascal", folder / "data" / "PF-PASCAL")
    (folder / "recipe.toml").write_text(RECIPE.format(root=folder / "data"))
    (folder / "head.safetensors").write_bytes(HEAD.read_bytes())
    (folder / "head.json").write_text((MODELS / f"{UNTRAINED}.json").read_text())
    (folder / "begun").mkdir()
    (folder / "begun" / BEST).write_bytes(HEAD.read_bytes())
    (folder / "run").mkdir()
    state = seal({"head.weight": torch.ones(3)}, {"format": FORMAT, "config": {}, "progress": {}})
    (folder / "run" / STATE).write_bytes(state)
    weights = {"layer.weight": torch.arange(12.0).reshape(3, 4), "layer.bias": torch.zeros(3)}
    torch.save(weights, folder / "weights.pth")
    save_file(weights, folder / "weights.safetensors")
