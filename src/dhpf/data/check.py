"""A folder -> what is complete, missing or damaged in it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from ..errors import InputError
from ..images import read_image
from .pairs import PairDataset
from .registry import open_dataset, recognise, splits_in

SHOWN = 3  # names given of each kind of problem


class Report(NamedTuple):
    """What a folder holds."""

    complete: bool  # everything is there and readable that the pair lists name, and all lists are
    lines: tuple[str, ...]  # in words


def check(root: str | Path) -> Report:
    """Open every pair list, annotation and image of a data set's folder.

    Parameters
    ----------
    root
        The folder of any of the data sets; which one is recognised from its contents.
    """
    root = Path(root)
    info = recognise(root)
    lines, problems, lists = [f"{info.name} in {root}"], [], []
    official = True
    images: dict[Path, PairDataset] = {}  # with a data set that names it
    for split in splits_in(info, root):
        try:
            dataset = open_dataset(info.name, root, split)
        except InputError as error:
            lists.append(str(error))
            continue
        images |= {path: dataset for entry in dataset.entries for path in (entry.source, entry.target)}
        unreadable, without_points = _check_annotations(dataset)
        wanted = info.pairs.get(split, len(dataset))
        official &= len(dataset) == wanted
        remarks = [] if len(dataset) == wanted else [f"the official list has {wanted:,}"]
        if without_points and info.threshold != "mask-transfer":
            remarks.append(f"{without_points:,} without a common point")
        lines.append(f"  {split}: {len(dataset):,} pairs" + (f" ({'; '.join(remarks)})" if remarks else ""))
        lines += _counted("unreadable annotation", unreadable)
        problems += unreadable
    missing = [str(path) for path in images if not path.exists()]
    with ThreadPoolExecutor() as pool:
        found = pool.map(lambda path: _damage(path, images[path]), [p for p in images if p.exists()])
        damaged = [damage for damage in found if damage is not None]
    lines += _counted("unusable pair list", lists)
    lines.append(f"  images: {len(images):,} named by the lists")
    lines += _counted("missing image", missing)
    lines += _counted("damaged image", damaged)
    complete = not (problems or lists or missing or damaged)
    as_far = "complete" if official else "complete as far as its lists go, which are not the official ones"
    return Report(complete, (*lines, as_far if complete else "not complete"))


def _check_annotations(dataset: PairDataset) -> tuple[list[str], int]:
    """What is unreadable, and the number of pairs that have no common point."""
    problems: dict[str, None] = {}  # several pairs share a file: each problem once
    without_points = 0
    for index in range(len(dataset)):
        try:
            without_points += len(dataset.annotation(index).source.points) == 0
        except InputError as error:
            problems[str(error)] = None
    return list(problems), without_points


def _damage(path: Path, dataset: PairDataset) -> str | None:
    try:
        read_image(path)
        dataset.size(path)
    except InputError as error:
        return str(error)
    return None


def _counted(what: str, problems: list[str]) -> Iterator[str]:
    if problems:
        yield f"  {len(problems):,} x {what}:"
        yield from (f"    {problem}" for problem in problems[:SHOWN])
    if len(problems) > SHOWN:
        yield f"    and {len(problems) - SHOWN:,} more"
