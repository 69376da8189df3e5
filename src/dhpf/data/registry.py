"""The data sets by name: what they are, how they are scored by default, where they come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import InputError, unknown
from .caltech101 import Caltech101
from .coco import CocoKeypoints, find_splits
from .pairs import PairDataset
from .pf_pascal import PFPascal
from .pf_willow import PFWillow
from .spair71k import SPair71k

PROPOSAL_FLOW = "https://www.di.ens.fr/willow/research/proposalflow"
PAIR_LISTS = (
    "https://raw.githubusercontent.com/ignacio-rocco/ncnet/"
    "8f6839c6738d6c51a06c78810ecbbfe21dcd87ac/datasets/pf-pascal/image_pairs"
)


@dataclass(frozen=True)
class RemoteFile:
    """One file of a data set on the web."""

    url: str
    name: str  # in the downloads folder, and for a pair list in the data set too
    sha256: str | None = None  # None where the authors publish none: the download is then not verified
    top: str | None = None  # of an archive: the folder in it that is the data set
    inner: tuple[str, ...] = ()  # archives in that folder, to be unpacked there


@dataclass(frozen=True)
class DatasetInfo:
    """What is known about a data set without opening it."""

    name: str
    folder: str  # its name, below the folder of all data sets
    loader: type[PFPascal | PFWillow | Caltech101 | SPair71k | CocoKeypoints]
    threshold: str  # of the default protocol: image, box or keypoints; mask-transfer has none
    page: str
    marks: tuple[str, ...]  # patterns of names, any of which tells the data set
    pairs: Mapping[str, int] = field(default_factory=dict)  # split -> pairs in the official list
    files: tuple[RemoteFile, ...] = ()


DATASETS = {
    info.name: info
    for info in (
        DatasetInfo(
            name="spair-71k",
            folder="SPair-71k",
            loader=SPair71k,
            pairs={"trn": 53340, "val": 5384, "test": 12234},
            threshold="box",
            page="https://cvlab.postech.ac.kr/research/SPair-71k/",
            files=(
                RemoteFile(
                    "https://cvlab.postech.ac.kr/research/SPair-71k/data/SPair-71k.tar.gz",
                    "SPair-71k.tar.gz",
                    top="SPair-71k",
                ),
            ),
            marks=("PairAnnotation", "Layout"),
        ),
        DatasetInfo(
            name="caltech-101",
            folder="Caltech-101",
            loader=Caltech101,
            pairs={"test": 1515},
            threshold="mask-transfer",
            page="https://data.caltech.edu/records/mzrjq-6wc02",
            files=(
                RemoteFile(
                    "https://data.caltech.edu/records/mzrjq-6wc02/files/caltech-101.zip?download=1",
                    "caltech-101.zip",
                    "331234750fc7f77520e50d9565e8b6907b03565e30320da1401130db08c61f91",
                    top="caltech-101",
                    inner=("101_ObjectCategories.tar.gz",),
                ),
                RemoteFile(
                    "https://www.di.ens.fr/willow/research/weakalign/other_resources/"
                    "test_pairs_caltech_with_category.csv",
                    "test_pairs_caltech_with_category.csv",
                ),
            ),
            marks=("101_ObjectCategories", "test_pairs_caltech_with_category.csv"),
        ),
        DatasetInfo(
            name="pf-willow",
            folder="PF-WILLOW",
            loader=PFWillow,
            pairs={"test": 900},
            threshold="keypoints",
            page=f"{PROPOSAL_FLOW}/",
            files=(
                RemoteFile(f"{PROPOSAL_FLOW}/dataset/PF-dataset.zip", "PF-dataset.zip", top="PF-dataset"),
            ),
            marks=("*(*)/*.mat", "test_pairs_pf.csv"),
        ),
        DatasetInfo(
            name="pf-pascal",
            folder="PF-PASCAL",
            loader=PFPascal,
            pairs={"trn": 2940, "val": 308, "test": 299},
            threshold="image",
            page=f"{PROPOSAL_FLOW}/",
            files=(
                RemoteFile(
                    f"{PROPOSAL_FLOW}/dataset/PF-dataset-PASCAL.zip",
                    "PF-dataset-PASCAL.zip",
                    top="PF-dataset-PASCAL",
                ),
                RemoteFile(f"{PAIR_LISTS}/train_pairs.csv", "train_pairs.csv"),
                RemoteFile(f"{PAIR_LISTS}/val_pairs.csv", "val_pairs.csv"),
                RemoteFile(f"{PAIR_LISTS}/test_pairs.csv", "test_pairs.csv"),
            ),
            marks=("*_pairs.csv", "Annotations/*/*.mat"),
        ),
        DatasetInfo(  # a format, in which people have data of their own
            name="coco",
            folder="",
            loader=CocoKeypoints,
            threshold="box",
            page="https://cocodataset.org/#format-data",
            marks=("*.json", "*/*.json"),
        ),
    )
}


def find_dataset(name: str) -> DatasetInfo:
    """Look a data set up by its name on the command line."""
    if name not in DATASETS:
        raise unknown("data set", name, DATASETS)
    return DATASETS[name]


def open_dataset(name: str, root: str | Path, split: str | None = None) -> PairDataset:
    """Open one split of a data set.

    Parameters
    ----------
    name
        ``pf-pascal``, ``pf-willow``, ``caltech-101``, ``spair-71k`` or ``coco``.
    root
        The data set's folder.
    split
        ``trn``, ``val`` or ``test``; PF-WILLOW and Caltech-101 have ``test`` alone, COCO keypoints files
        those of `splits_in`. By default ``test``, or the only one that a folder of one's own has.
    """
    info = find_dataset(name)
    if split is None:
        splits = splits_in(info, Path(root))
        split = splits[0] if len(splits) == 1 else "test"
    return info.loader(root, split)


def lists_in(name: str, root: Path) -> Iterator[Path]:
    """The lists and annotations of a data set in its folder: no output may replace them."""
    if name in DATASETS:
        for pattern in DATASETS[name].loader.reads:
            yield from root.glob(pattern)


def splits_in(info: DatasetInfo, root: Path) -> tuple[str, ...]:
    """The official splits, or those that a folder has."""
    if info.pairs:
        return tuple(info.pairs)
    return tuple(find_splits(root))


def recognise(root: Path) -> DatasetInfo:
    """Tell which data set a folder holds."""
    if not root.is_dir():
        raise InputError(f"{root}: no such folder")
    for info in DATASETS.values():
        if any(next(root.glob(mark), None) for mark in info.marks):
            return info
    wanted = "; ".join(f"{info.name} has {' or '.join(info.marks)}" for info in DATASETS.values())
    raise InputError(f"{root}: not a folder of a known data set ({wanted})")
