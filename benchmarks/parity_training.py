"""Agreement of losses and gradients with figures of the published implementation.

    python -m benchmarks.parity_training FOLDER resnet50_msra_float32.safetensors

FOLDER holds what ``benchmarks/parity.py`` reads, and ``training.json``: three pairs as one batch, batch norm
in evaluation mode, no noise, hard gates with the softmax's gradient.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks.parity import images_of, published_network, stages
from benchmarks.record import save_result
from dhpf.losses.layer_rate import layer_rate_loss
from dhpf.losses.rows import appearance_rows
from dhpf.losses.strong import importance, nearest_cells, strong_loss, target_distributions
from dhpf.losses.weak import correlation_entropy
from dhpf.model.gating import ON

GRID = (60, 60)
THRESHOLD = 24.0
RATE = 0.5


def main(folder: Path, backbone: Path) -> None:
    """Compute, compare, record."""
    truth = json.loads((folder / "training.json").read_text())
    network = published_network(folder, backbone, folded=False)
    pairs = [dict(np.load(folder / f"pair_{index}.npz")) for index in range(3)]
    source, target = (torch.cat(side) for side in zip(*(images_of(pair) for pair in pairs), strict=True))
    a, b = network.features(source), network.features(target)

    scores = torch.stack(
        [mlp(x + y) for mlp, x, y in zip(network.gates.perceptrons, a.pooled, b.pooled, strict=True)], 1
    )
    soft = scores.softmax(-1)
    hard = torch.zeros_like(soft).scatter_(-1, soft.argmax(-1, keepdim=True), 1.0)
    on = (hard + (soft - soft.detach()))[..., ON]

    most = max(len(pair["source_points"]) for pair in pairs)

    def padded(name: str) -> Tensor:
        return torch.stack([torch.from_numpy(np.resize(pair[name], (most, 2))) for pair in pairs])

    valid = torch.stack([torch.arange(most) < len(pair["source_points"]) for pair in pairs])
    cells = nearest_cells(padded("source_points"), GRID)
    with torch.no_grad():
        found = [stages(network, source[i : i + 1], target[i : i + 1]) for i in range(3)]
        votes = torch.stack([one["votes"][cells[i]] for i, one in enumerate(found)])
        entropies = [correlation_entropy(one["filtered"][None], GRID, GRID).item() for one in found]
    blocks = [[network.transform(n, side.blocks[n]) for n in network.candidates()] for side in (a, b)]
    rows = appearance_rows(blocks[0], blocks[1], on.square(), cells, GRID, GRID) * votes
    omega = importance(padded("predicted_points"), padded("target_points"), torch.full((3,), THRESHOLD))
    truth_rows = target_distributions(padded("target_points"), GRID, spread=0.0)
    strong = strong_loss(rows, truth_rows, valid, omega).loss
    rate = layer_rate_loss(on, RATE)
    torch.autograd.backward(strong + rate)

    def relative(value: float, wanted: float) -> float:
        return abs(value - wanted) / max(abs(wanted), 1e-6)

    names = {"reduction_ffns": "transforms", "gumbel_ffns": "gates.perceptrons"}
    gradients = []
    for key, wanted in truth["grad_norms"].items():
        kind, rest = key.split(".", 1)
        gradient = network.get_parameter(f"{names[kind]}.{rest}").grad
        gradients.append(relative(0.0 if gradient is None else gradient.norm().item(), wanted))
    result = {
        "strong_loss": relative(strong.item(), truth["strong_loss"]),
        "layer_rate_loss": relative(rate.item(), truth["layer_rate_loss"]),
        "entropy_per_pair": max(map(relative, entropies, truth["entropy_per_pair"])),
        "gradient_norms": {"parameters": len(gradients), "largest_relative_error": max(gradients)},
    }
    print(json.dumps(result, indent=1))
    save_result("parity_training", "python -m benchmarks.parity_training FOLDER FILE", result)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
