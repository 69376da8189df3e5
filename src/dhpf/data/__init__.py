"""Four benchmarks and COCO keypoints files, one sample type: see `dhpf.data.pairs`.

Nothing here imports torch before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .augment import Augmented
    from .caltech101 import Caltech101
    from .coco import CocoKeypoints
    from .mini import make_mini
    from .pairs import Pair, PairDataset, Photo
    from .pf_pascal import PFPascal
    from .pf_willow import PFWillow
    from .registry import open_dataset
    from .spair71k import SPair71k

__all__ = [
    "Augmented",
    "Caltech101",
    "CocoKeypoints",
    "PFPascal",
    "PFWillow",
    "Pair",
    "PairDataset",
    "Photo",
    "SPair71k",
    "make_mini",
    "open_dataset",
]

_HOME = {
    "Augmented": "augment",
    "Caltech101": "caltech101",
    "CocoKeypoints": "coco",
    "PFPascal": "pf_pascal",
    "PFWillow": "pf_willow",
    "Pair": "pairs",
    "PairDataset": "pairs",
    "Photo": "pairs",
    "SPair71k": "spair71k",
    "make_mini": "mini",
    "open_dataset": "registry",
}


def __getattr__(name: str) -> Any:
    """Import the public names at first use: scoring must not wait for torch."""
    if name in _HOME:
        return getattr(import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"module 'dhpf.data' has no attribute '{name}'")
