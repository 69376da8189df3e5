"""A folder -> what is complete, missing or damaged in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ..errors import InputError
from .images import read_rgb
from .pairs import PairDataset
from .registry import DatasetInfo, open_dataset, recognise

SHOWN = 3  # names given of each kind of problem


class SplitReport(NamedTuple):
    """One pair list."""

    split: str
    pairs: int
    official: int  # pairs in the official list
    without_points: int
    problems: tuple[str, ...]  # unreadable annotations, one line each


@dataclass(frozen=True)
class Report:
    """What a folder holds."""

    info: DatasetInfo
    root: Path
    splits: tuple[SplitReport, ...]
    lists: tuple[str, ...]  # pair lists that are missing or unreadable, one line each
    images: int  # that the lists name
    missing: tuple[Path, ...]  # of these
    damaged: tuple[str, ...]  # one line each

    @property
    def complete(self) -> bool:
        """Is everything there and readable that the pair lists name, and are all lists there?"""
        problems = [self.lists, self.missing, self.damaged, *(split.problems for split in self.splits)]
        return not any(problems)

    def lines(self) -> Iterator[str]:
        """The report in words."""
        yield f"{self.info.title} in {self.root}"
        for split in self.splits:
            yield f"  {split.split}: {split.pairs:,} pairs" + _remarks(split, self.info)
            yield from _counted("unreadable annotation", split.problems)
        yield from _counted("unusable pair list", self.lists)
        yield f"  images: {self.images:,} named by the lists"
        yield from _counted("missing image", [str(path) for path in self.missing])
        yield from _counted("damaged image", self.damaged)
        official = all(split.pairs == split.official for split in self.splits)
        whole = "complete" if official else "complete as far as its lists go, which are not the official ones"
        yield whole if self.complete else "not complete"


def check(root: str | Path) -> Report:
    """Open every pair list, annotation and image of a data set's folder.

    Parameters
    ----------
    root
        The folder of any of the four data sets; which one is recognised from its contents.
    """
    root = Path(root)
    info = recognise(root)
    splits, lists = [], []
    images: dict[Path, None] = {}
    for split in info.pairs:
        try:
            dataset = open_dataset(info.name, root, split)
        except InputError as error:
            lists.append(str(error))
            continue
        splits.append(_check_split(dataset, info.pairs[split]))
        for entry in dataset.entries:
            images.update({entry.source: None, entry.target: None})
    missing = tuple(path for path in images if not path.exists())
    with ThreadPoolExecutor() as pool:
        damages = pool.map(_damage, [path for path in images if path.exists()])
        damaged = tuple(damage for damage in damages if damage)
    return Report(info, root, tuple(splits), tuple(lists), len(images), missing, damaged)


def _check_split(dataset: PairDataset, official: int) -> SplitReport:
    problems: dict[str, None] = {}  # several pairs share a file: each problem once
    without_points = 0
    for index in range(len(dataset)):
        try:
            without_points += len(dataset.annotation(index).source.points) == 0
        except InputError as error:
            problems[str(error)] = None
    return SplitReport(dataset.split, len(dataset), official, without_points, tuple(problems))


def _damage(path: Path) -> str | None:
    try:
        read_rgb(path)
    except InputError as error:
        return str(error)
    return None


def _remarks(split: SplitReport, info: DatasetInfo) -> str:
    remarks = []
    if split.pairs != split.official:
        remarks.append(f"the official list has {split.official:,}")
    if split.without_points and info.threshold != "mask-transfer":
        remarks.append(f"{split.without_points:,} without a common point")
    return f" ({'; '.join(remarks)})" if remarks else ""


def _counted(what: str, problems: Iterable[str]) -> Iterator[str]:
    problems = list(problems)
    if problems:
        yield f"  {len(problems):,} x {what}:"
        yield from (f"    {problem}" for problem in problems[:SHOWN])
    if len(problems) > SHOWN:
        yield f"    and {len(problems) - SHOWN:,} more"
