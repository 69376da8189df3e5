"""Make the bundled DINOv2 file from float weights: matrices in 8 bits, one scale for each output channel.

python -m benchmarks.bundle_backbone dinov2_vits14.safetensors OUT.safetensors
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from dhpf.backbones.state import dequantised, quantised, read_state
from dhpf.files import sha256


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
