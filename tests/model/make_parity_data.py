"""How ``parity.npz`` was made: the parts of the published implementation's figures that the tests keep.

    python -m tests.model.make_parity_data FOLDER resnet50_msra_float32.safetensors

It holds no photos: of one pair the transformed blocks of the chosen layers and some rows of every stage, of
three pairs the gates' pooled inputs and decisions, and the gates' weights.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from benchmarks.parity import images_of, published_method

KEPT_ROWS = 6


@torch.no_grad()
def main(folder: Path, backbone: Path) -> None:
    method = published_method(folder, backbone)
    kept: dict[str, np.ndarray] = {}
    for index in range(3):
        pair = np.load(folder / f"pair_{index}.npz")
        a, b = (method.features(image) for image in images_of(pair))
        kept[f"pooled_{index}"] = torch.cat([a.pooled[n] + b.pooled[n] for n in a.pooled]).numpy()
        kept[f"layers_{index}"] = pair["layers"].astype(np.uint8)
        if index == 0:
            for layer in np.flatnonzero(pair["layers"]):
                for side, features in (("source", a), ("target", b)):
                    block = method.transform(layer, features.blocks[layer])
                    kept[f"{side}_{layer}"] = block.permute(2, 0, 1).contiguous().numpy()
            chosen = np.linspace(0, len(pair["rows"]) - 1, KEPT_ROWS).astype(int)
            kept["rows"] = pair["rows"][chosen]
            for name in ("appearance", "votes", "confidence", "filtered"):
                kept[name] = pair[name][chosen]
            for name in ("best_target", "source_points", "predicted_points"):
                kept[name] = pair[name]
    for key, value in method.gates.state_dict().items():
        if not key.endswith("num_batches_tracked"):
            kept[f"gates/{key}"] = value.numpy()
    np.savez_compressed(Path(__file__).parent / "parity.npz", **kept)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
