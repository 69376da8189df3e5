"""Fit what tells objects from their surroundings in a frozen backbone: one linear map of one layer.

    python -m benchmarks.foreground PF-PASCAL --backbone dinov2-vits14 --layer 8

It learns from the class masks of PASCAL VOC that lie beside PF-PASCAL's images (SegmentationClass), without
the images of its test pairs. A cell is on an object if most of its pixels are, of whatever class. Some images
are held out to say how well the map does: the area under the ROC curve.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor

from benchmarks.record import save_result
from dhpf.backbones.weights import ASSETS, load_backbone
from dhpf.data import open_dataset
from dhpf.images import read_image, to_input

HELD_OUT, CELLS = 40, 200  # images that are held out; cells of each of the others that are learned from
VOID = 255
DECAY = 1e-3


def on_object(mask: Path, rows: int, columns: int) -> Tensor:
    """1 or 0 for each cell, or NaN where the mask does not say: (h*w,)."""
    with Image.open(mask) as image:
        classes = np.asarray(image)
    known, seen = (
        np.asarray(Image.fromarray(part.astype(np.float32)).resize((columns, rows), Image.Resampling.BOX))
        for part in (classes != VOID, (classes != VOID) & (classes != 0))
    )
    fraction = np.where(known > 0.5, seen / np.maximum(known, 1e-6) > 0.5, np.nan)
    return torch.from_numpy(fraction.reshape(-1)).float()


def area_under_curve(score: NDArray[np.float64], positive: NDArray[np.bool_]) -> float:
    """How often a positive has a higher score than a negative."""
    rank = np.argsort(np.argsort(score))
    count = positive.sum()
    return float((rank[positive].sum() - count * (count - 1) / 2) / (count * (~positive).sum()))


def main() -> None:
    """Fit, judge, write, record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("root", type=Path)
    parser.add_argument("--backbone", default="dinov2-vits14")
    parser.add_argument("--layer", type=int, default=8)
    parser.add_argument("--side", type=int, default=448)
    arguments = parser.parse_args()
    network = load_backbone(arguments.backbone)
    size = arguments.side, arguments.side
    test = open_dataset("pf-pascal", arguments.root, "test").entries
    barred = {path.stem for entry in test for path in (entry.source, entry.target)}
    listed = sorted((arguments.root / "SegmentationClass").glob("*.png"))
    listed = [path for path in listed if path.stem not in barred]
    masks = [listed[k] for k in np.random.default_rng(0).permutation(len(listed))]
    features, labels = [], []
    for mask in masks:
        photo = read_image(arguments.root / "JPEGImages" / f"{mask.stem}.jpg")
        image = to_input(photo, size, network.mean, network.std)
        with torch.no_grad():
            block = network(image, [arguments.layer])[arguments.layer]
        label = on_object(mask, block.shape[2], block.shape[3])
        sure = label.isfinite()
        features.append(block[0].flatten(1).T[sure])
        labels.append(label[sure] > 0.5)
    picked = torch.Generator().manual_seed(0)
    chosen = [torch.randperm(len(f), generator=picked)[:CELLS] for f in features[HELD_OUT:]]
    x = torch.cat([f[c] for f, c in zip(features[HELD_OUT:], chosen, strict=True)])
    y = torch.cat([m[c] for m, c in zip(labels[HELD_OUT:], chosen, strict=True)]).float()
    weight, bias = fitted(x, y)
    areas = [
        area_under_curve((f @ weight + bias).double().numpy(), m.numpy())
        for f, m in zip(features[:HELD_OUT], labels[:HELD_OUT], strict=True)
        if 0 < int(m.sum()) < len(m)
    ]
    out = ASSETS / f"{arguments.backbone}_foreground.safetensors"
    save_file({"layer": torch.tensor(arguments.layer), "weight": weight, "bias": bias}, out)
    options = f"--backbone {arguments.backbone} --layer {arguments.layer} --side {arguments.side}"
    area = round(float(np.mean(areas)), 3)
    result = {"images": len(masks), "held_out": len(areas), "area_under_curve": area}
    print(result)
    name = f"foreground_{arguments.backbone}"
    save_result(name, f"python -m benchmarks.foreground PF-PASCAL {options}", result)


def fitted(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Logistic regression of standardised features, given back for the features as they are."""
    mean, deviation = x.mean(0), x.std(0).clamp_min(1e-6)
    standard = (x - mean) / deviation
    weight, bias = torch.zeros(x.shape[1], requires_grad=True), torch.zeros((), requires_grad=True)
    optimiser = torch.optim.LBFGS([weight, bias], max_iter=60)

    def loss() -> Tensor:
        optimiser.zero_grad()
        fit = torch.nn.functional.binary_cross_entropy_with_logits(standard @ weight + bias, y)
        total: Tensor = fit + DECAY * weight.square().sum()
        total.backward()  # type: ignore[no-untyped-call]
        return total

    optimiser.step(loss)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        plain = weight / deviation
        return plain.detach(), (bias - (mean * plain).sum()).detach()


if __name__ == "__main__":
    main()
