"""Agreement with figures of the published implementation, stage by stage.

    python -m benchmarks.parity FOLDER [--backbone resnet50_msra_float32.safetensors]

FOLDER holds ``published_format_head.pt`` and ``pair_*.npz``: images, rows of every stage, predictions.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.record import save_result
from dhpf.backbones.resnet import ResNet
from dhpf.backbones.state import load_strictly, read_state
from dhpf.backbones.weights import ASSETS, BACKBONES
from dhpf.heads import PUBLISHED, import_published
from dhpf.methods.dhpf import DHPF
from dhpf.model.correlation import correlate
from dhpf.model.hough import hough_space, offset_windows
from dhpf.model.matching import match_cells
from dhpf.model.mutual import mutual_filter
from dhpf.model.readout import argmax_flow


def published_method(folder: Path, backbone: Path, folded: bool = True) -> DHPF:
    """The head of the published format on the given weights; stride in the 3x3 convolution, as there.

    Unless ``folded``, it can be trained; it is in evaluation mode all the same.
    """
    resnet = ResNet(50, stride_in_1x1=False)
    load_strictly(resnet, read_state(backbone), f"{backbone} is not a ResNet-50")
    method = DHPF(resnet.for_inference(), PUBLISHED)
    with tempfile.TemporaryDirectory() as place:
        head = Path(place) / "head.safetensors"
        import_published(folder / "published_format_head.pt", head, "resnet50")
        load_strictly(method.head(), read_state(head), "the published head does not fit")
    if folded:
        return method.for_inference()
    method.head().requires_grad_(True)
    return method.eval()


def images_of(pair: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
    """Source and target of a pair of the figures, normalised: (3, 240, 240)."""
    mean, std = (torch.tensor(value).view(3, 1, 1) for value in (ResNet.mean, ResNet.std))
    source, target = (torch.from_numpy(pair[name]).permute(2, 0, 1) / 255 for name in ("source", "target"))
    return (source - mean) / std, (target - mean) / std


def stages(method: DHPF, source: Tensor, target: Tensor) -> dict[str, Any]:
    """Everything that the figures cover, for one pair."""
    a, b = method.features(source), method.features(target)
    layers = method.match(a, b).layers or ()
    sides = [[method.transform(n, side.blocks[n]) for n in layers] for side in (a, b)]
    correlation = correlate(sides[0], sides[1], a.grid, b.grid)
    every, windows = torch.arange(a.grid.cells), offset_windows(a.grid, b.grid, torch.device("cpu"))
    space = hough_space(a.grid, b.grid, torch.float32, torch.device("cpu"), method.config.hough)
    appearance, table = correlation.dense(), torch.zeros(len(space.vertical), len(space.horizontal))
    windows.add(table, every, appearance)
    votes = windows.read(space.votes(table), every)
    confidence = appearance * votes
    found = match_cells(correlation, method.config.voting)
    return {
        "layers": layers,
        "appearance": appearance,
        "votes": votes,
        "confidence": confidence,
        "filtered": mutual_filter(confidence, confidence.amax(1), confidence.amax(0)),
        "best_target": found.best,
        "flow": argmax_flow(found.best, found.confidence, a.grid, b.grid),
    }


@torch.no_grad()
def compare(method: DHPF, file: Path) -> dict[str, Any]:
    """Largest errors of one pair; relative to the largest value of that stage's row."""
    with np.load(file) as truth:
        pair = {name: truth[name] for name in truth.files}
    found = stages(method, *images_of(pair))
    report: dict[str, Any] = {"pair": file.stem}
    report["layers_equal"] = list(found["layers"]) == np.flatnonzero(pair["layers"]).tolist()
    for name in ("appearance", "votes", "confidence", "filtered"):
        error = np.abs(found[name][pair["rows"]].numpy() - pair[name]).max(1) / np.abs(pair[name]).max(1)
        report[name] = float(error.max())
    report["best_targets_different"] = int((found["best_target"].numpy() != pair["best_target"]).sum())
    points = pair["source_points"].astype(np.float64)
    moved = found["flow"].transfer(points)
    report["predicted_points_pixels"] = float(np.abs(moved - pair["predicted_points"]).max())
    return report


def main() -> None:
    """Compare all pairs, print, record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--backbone", type=Path, help="weights to use besides the bundled ones")
    arguments = parser.parse_args()
    bundled = ASSETS / BACKBONES["resnet50-msra"].source
    results = {}
    for name, path in (("bundled, float16", bundled), ("given", arguments.backbone)):
        if path is not None:
            method = published_method(arguments.folder, path)
            files = sorted(arguments.folder.glob("pair_*.npz"))
            results[name] = [compare(method, file) for file in files]
    print(json.dumps(results, indent=1))
    save_result("parity", "python -m benchmarks.parity FOLDER --backbone FILE", results)


if __name__ == "__main__":
    main()
