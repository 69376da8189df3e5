"""Fit what tells objects from their surroundings in a frozen backbone: one linear map of one layer.

    python -m benchmarks.foreground VOC-KEYPOINTS/annotations.json --backbone dinov2-vits14 --layer 11

A cell is on an object if it lies in the annotated box. Some images are held out to say how well the map does
(area under the ROC curve; a box holds surroundings too, so it cannot be 1).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import Tensor

from benchmarks.record import save_result
from dhpf.backbones.weights import ASSETS, load_backbone
from dhpf.data import CocoKeypoints
from dhpf.grid import resize_points
from dhpf.images import read_image, to_input

IMAGES, HELD_OUT, CELLS = 300, 60, 200  # images; of these held out; cells of each that are learned from
DECAY = 1e-3


def in_box(centres: NDArray[np.float64], box: NDArray[np.float64]) -> Tensor:
    """Which cells lie in the box, (h*w,)."""
    inside = ((centres >= box[:2]) & (centres <= box[2:])).all(-1)
    return torch.from_numpy(inside.reshape(-1))


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
    parser.add_argument("annotations", type=Path)
    parser.add_argument("--backbone", default="dinov2-vits14")
    parser.add_argument("--layer", type=int, default=11)
    parser.add_argument("--side", type=int, default=448)
    arguments = parser.parse_args()
    network = load_backbone(arguments.backbone)
    size = arguments.side, arguments.side
    pairs = CocoKeypoints(arguments.annotations)
    boxes: dict[Path, NDArray[np.float64]] = {}
    for index in np.random.default_rng(0).permutation(len(pairs)):
        photo = pairs[int(index)].source
        if photo.box is not None:
            boxes.setdefault(photo.path, resize_points(photo.box.reshape(2, 2), photo.size, size).reshape(4))
        if len(boxes) == IMAGES:
            break
    features, labels = [], []
    for path, box in boxes.items():
        image = to_input(read_image(path), size, network.mean, network.std)
        with torch.no_grad():
            block = network(image, [arguments.layer])[arguments.layer][0].permute(1, 2, 0)
        grid = network.grid(size).with_shape(block.shape[0], block.shape[1])
        features.append(block.flatten(0, 1))
        labels.append(in_box(grid.centres(), box))
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
    result = {"images": len(boxes), "held_out": len(areas), "area_under_curve": area}
    print(result)
    name = f"foreground_{arguments.backbone}"
    save_result(name, f"python -m benchmarks.foreground ANNOTATIONS {options}", result)


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
