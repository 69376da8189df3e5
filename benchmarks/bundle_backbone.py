"""Make the bundled DINOv2 file from float weights: matrices in 8 bits, one scale for each output channel.

python -m benchmarks.bundle_backbone dinov2_vits14.safetensors OUT.safetensors
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from dhpf.backbones.state import SCALE, dequantised, read_state
from dhpf.files import sha256

INT8 = 127  # the largest value of 8 bits
TINY = 1e-30  # of a channel that is all zero


def quantised(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Matrices in 8 bits, one scale for each output channel; vectors in float32. A quarter of the size."""
    small: dict[str, Tensor] = {}
    for key, value in state.items():
        if value.ndim < 2 or value.shape[0] == 1:  # vectors, and embeddings that are added, not multiplied
            small[key] = value.half() if value.ndim > 1 else value.float()
            continue
        scale = (value.float().flatten(1).abs().amax(1) / INT8).clamp_min(TINY)
        small[key] = (value.float() / scale.view(-1, *[1] * (value.ndim - 1))).round().to(torch.int8)
        small[key + SCALE] = scale
    return small


def main(source: Path, out: Path) -> None:
    """Write the file; say how large it is, its checksum, and how far its matrices are from those given."""
    state = {key: value for key, value in read_state(source).items() if key != "mask_token"}
    small = quantised(state)
    save_file({key: value.contiguous() for key, value in small.items()}, out)
    worst = max(
        float((restored - state[key].float()).norm() / state[key].float().norm())
        for key, restored in dequantised(small).items()
        if small[key].dtype == torch.int8
    )
    print(f"{out}: {out.stat().st_size / 2**20:.1f} MB, sha256 {sha256(out)}")
    print(f"largest relative error of a matrix: {worst:.4f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
