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
from tests.literal import correlation_entropy

from benchmarks.parity import images_of, published_method, stages
from benchmarks.record import save_result
from dhpf.losses.layer_rate import layer_rate_loss
from dhpf.losses.strong import importance, strong_loss, target_distributions
from dhpf.model.correlation import correlate
from dhpf.model.gating import ON, straight_through

THRESHOLD = 24.0
RATE = 0.5


def main(folder: Path, backbone: Path) -> None:
    """Compute, compare, record."""
    truth = json.loads((folder / "training.json").read_text())
    method = published_method(folder, backbone, folded=False)
    losses, gates, entropies = [], [], []
    for index in range(3):
        pair = dict(np.load(folder / f"pair_{index}.npz"))
        source, target = images_of(pair)
        a, b = method.features(source), method.features(target)
        pooled = [(a.pooled[n] + b.pooled[n])[None] for n in method.layers]
        scores = torch.stack([mlp(x) for mlp, x in zip(method.gates.perceptrons, pooled, strict=True)], 1)
        on = straight_through(scores)[0, :, ON]
        gates.append(on)
        with torch.no_grad():
            found = stages(method, source, target)
        entropies.append(correlation_entropy(found["filtered"][None], a.grid, b.grid).item())
        sides = [[method.transform(n, side.blocks[n]) for n in method.layers] for side in (a, b)]
        correlation = correlate(sides[0], sides[1], a.grid, b.grid, weights=on.square())
        points = {
            name: torch.from_numpy(pair[f"{name}_points"]) for name in ("source", "target", "predicted")
        }
        cells = a.grid.nearest(points["source"])
        omega = importance(points["predicted"], points["target"], THRESHOLD)
        rows = correlation.rows(cells) * found["votes"][cells]
        losses.append(strong_loss(rows, target_distributions(points["target"], b.grid), omega))
    strong, rate = torch.stack(losses).mean(), layer_rate_loss(torch.stack(gates), RATE)
    torch.autograd.backward(strong + rate)

    def relative(value: float, wanted: float) -> float:
        return abs(value - wanted) / max(abs(wanted), 1e-6)

    names = {"reduction_ffns": "transforms", "gumbel_ffns": "gates.perceptrons"}
    gradients = []
    for key, wanted in truth["grad_norms"].items():
        kind, rest = key.split(".", 1)
        gradient = method.get_parameter(f"{names[kind]}.{rest}").grad
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
