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
from dhpf.model.backbone import DEVIATION, MEAN, ResNet
from dhpf.model.checkpoint import import_published
from dhpf.model.hough import hough_space, spread_votes
from dhpf.model.matching import match_cells
from dhpf.model.mutual import mutual_filter
from dhpf.model.network import DHPF
from dhpf.model.passes import Block, TorchPasses
from dhpf.model.transfer import Neighbourhoods, cell_offsets
from dhpf.model.weights import ASSETS, BACKBONES, load_strictly, read_state


def published_network(folder: Path, backbone: Path, folded: bool = True) -> DHPF:
    """The head of the published format on the given weights; stride in the 3x3 convolution, as there.

    Unless ``folded``, it can be trained; it is in evaluation mode all the same.
    """
    resnet = ResNet(50, stride_in_1x1=False)
    load_strictly(resnet, read_state(backbone), f"{backbone} is not a ResNet-50")
    network = DHPF(resnet.folded())
    with tempfile.TemporaryDirectory() as place:
        head = Path(place) / "head.safetensors"
        import_published(folder / "published_format_head.pt", head, "resnet50")
        modules = torch.nn.ModuleDict({"gates": network.gates, "transforms": network.transforms})
        load_strictly(modules, read_state(head), "the published head does not fit")
    return network.folded() if folded else network.eval().requires_grad_(True)


def images_of(pair: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
    """Source and target of a pair of the figures, normalised: (1, 3, 240, 240)."""
    mean, deviation = (torch.tensor(v).view(3, 1, 1) for v in (MEAN, DEVIATION))
    source, target = (torch.from_numpy(pair[name]).permute(2, 0, 1) / 255 for name in ("source", "target"))
    return ((source - mean) / deviation)[None], ((target - mean) / deviation)[None]


def stages(network: DHPF, source: Tensor, target: Tensor) -> dict[str, Any]:
    """Everything that the figures cover, for one pair."""
    a, b = network.features(source), network.features(target)
    layers, _ = network.choose(a, b)
    correlation = network.correlation(layers[0], a, b)
    space = hough_space(a.size, b.size, torch.float32, torch.device("cpu"))
    appearance = torch.empty(len(correlation.norm_a), len(correlation.norm_b))
    sums = TorchPasses(correlation).appearance(Block(0, a.grid[0], a.grid[1]), appearance)
    votes = spread_votes(space.votes(sums), 0, a.grid[0], a.grid, b.grid)
    confidence = appearance * votes
    filtered = mutual_filter(confidence, confidence.amax(1), confidence.amax(0))
    best = match_cells(correlation, space).best
    return {
        "layers": layers[0],
        "appearance": appearance,
        "votes": votes,
        "confidence": confidence,
        "filtered": filtered,
        "best_target": best,
    }


@torch.no_grad()
def compare(network: DHPF, file: Path) -> dict[str, Any]:
    """Largest errors of one pair; relative to the largest value of that stage's row."""
    with np.load(file) as truth:
        pair = {name: truth[name] for name in truth.files}
    found = stages(network, *images_of(pair))
    report: dict[str, Any] = {"pair": file.stem}
    report["layers_equal"] = list(found["layers"]) == np.flatnonzero(pair["layers"]).tolist()
    for name in ("appearance", "votes", "confidence", "filtered"):
        error = np.abs(found[name][pair["rows"]].numpy() - pair[name]).max(1) / np.abs(pair[name]).max(1)
        report[name] = float(error.max())
    report["best_targets_different"] = int((found["best_target"].numpy() != pair["best_target"]).sum())
    offsets = Neighbourhoods(cell_offsets(found["best_target"].numpy(), (60, 60), 60))
    points = pair["source_points"].astype(np.float64)
    moved = points + offsets.mean(points[:, 0], points[:, 1])
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
            network = published_network(arguments.folder, path)
            files = sorted(arguments.folder.glob("pair_*.npz"))
            results[name] = [compare(network, file) for file in files]
    print(json.dumps(results, indent=1))
    save_result("parity", "python -m benchmarks.parity FOLDER --backbone FILE", results)


if __name__ == "__main__":
    main()
