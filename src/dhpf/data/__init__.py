"""Four benchmarks and COCO keypoints files, one sample type: see `dhpf.data.pairs`. No torch is needed."""

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
