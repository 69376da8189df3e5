"""A trained head into the package, in float16.

python -m benchmarks.ship_head RUN/best.safetensors NAME
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

from dhpf.model.checkpoint import read_metadata, save_head
from dhpf.model.models import HEADS
from dhpf.model.weights import read_state
from dhpf.train.config import RunConfig

OURS = ("format", "version")  # what save_head writes itself


def main() -> None:
    """Round, compare, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("head", type=Path)
    parser.add_argument("name")
    arguments = parser.parse_args()
    state = read_state(arguments.head)
    rounded = {key: value.half() for key, value in state.items()}
    worst = max(
        float((rounded[key].float() - value).norm() / value.norm())
        for key, value in state.items()
        if value.any()
    )
    if not all(torch.isfinite(value).all() for value in rounded.values()):
        parser.error(f"{arguments.head}: a weight is too large for float16")
    HEADS.mkdir(parents=True, exist_ok=True)
    metadata = {key: value for key, value in read_metadata(arguments.head).items() if key not in OURS}
    config = json.loads(metadata["config"])
    config["data"]["root"] = ""  # where the data lay, and how large the disk was, is nobody's business
    config["run"]["cache_gb"] = RunConfig.cache_gb
    metadata["config"] = json.dumps(config)
    path = HEADS / f"{arguments.name}.safetensors"
    save_head(path, rounded, metadata)
    print(f"wrote {path.name}, {path.stat().st_size / 2**20:.1f} MB, largest relative change {worst:.1e}")


if __name__ == "__main__":
    main()
