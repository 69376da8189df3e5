"""Table 1 of the paper, measured here: every bundled model on three benchmarks, and its time for a pair.

    python -m benchmarks.table1 DATA [--models NAME ...]
    torchrun --nproc-per-node 2 -m benchmarks.table1 DATA
    python -m benchmarks.table1                                    the tables anew, from the files of results

DATA holds the data sets' folders. Models on one backbone are run side by side, pair by pair, so that it sees
each image once. What has a file of results is not computed again: remove the file to have it so. A run that
was killed resumes. The tables are written beside the results as ``table1.md``, ``.csv`` and ``.html``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from benchmarks.evaluate import RESULTS, open_pairs, record_all
from benchmarks.model_times import bundled_models, model_times, record_times
from benchmarks.record import RESULTS as FOLDER
from benchmarks.record import run
from benchmarks.table1_page import write_tables
from dhpf import Matcher, load
from dhpf.backbones.base import Backbone
from dhpf.evaluate.predict import predict_side_by_side
from dhpf.feature_cache import FeatureCache
from dhpf.grid import Grid, Size
from dhpf.processes import in_contact, rank_and_world_size
from dhpf.zoo import models

DATASETS = ("pf-pascal", "pf-willow", "caltech-101")
SHARED_BYTES = 2**30  # for what a backbone saw in the last images
TIMES = "model_times"
ROUNDS = 7  # of timing


@dataclass(frozen=True)
class Seen:
    """An image, known by its digest."""

    digest: bytes
    pixels: Tensor = field(compare=False)


class Layers(dict[int, Tensor]):
    """What a backbone made of an image."""

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return sum(block.numel() * block.element_size() for block in self.values())


class SharedBackbone(Backbone):
    """A backbone that several models are on: it sees an image once, however many of them ask."""

    def __init__(self, backbone: Backbone, layers: Iterable[int]) -> None:
        super().__init__()
        self.backbone = backbone
        probe = () if backbone.foreground is None else (backbone.foreground.layer,)
        self.needed = sorted({*layers, *probe})
        for name in ("title", "channels", "mean", "std", "multiple", "foreground"):
            setattr(self, name, getattr(backbone, name))
        self.images: FeatureCache[Seen, Layers] = FeatureCache(self._compute, SHARED_BYTES)

    def grid(self, size: Size) -> Grid:
        """The backbone's."""
        return self.backbone.grid(size)

    @property
    def device(self) -> Any:
        """The backbone's."""
        return self.backbone.device

    def forward(self, images: Tensor, layers: Sequence[int] | None = None) -> dict[int, Tensor]:
        """The layers asked for, of what is known or computed now."""
        digest = hashlib.blake2b(images.cpu().numpy().tobytes(), digest_size=16).digest()
        found = self.images.get(Seen(digest, images))
        return {layer: found[layer] for layer in (self.needed if layers is None else layers)}

    def _compute(self, image: Seen) -> Layers:
        return Layers(self.backbone(image.pixels, self.needed))


def on_shared_backbones(names: Iterable[str]) -> list[dict[str, Matcher]]:
    """The models, in groups that share a backbone and the size of its input."""
    groups: dict[tuple[str, Size], dict[str, Matcher]] = {}
    for name in names:
        matcher = load(name)
        updated = getattr(matcher.method.config, "lora_blocks", 0)  # by its head: nobody else's backbone
        backbone = name if updated else models()[name].backbone
        groups.setdefault((backbone, matcher.size), {})[name] = matcher
    for group in groups.values():
        methods = [matcher.method for matcher in group.values()]
        shared = SharedBackbone(methods[0].backbone, (n for method in methods for n in method.layers))
        for method in methods:
            method.backbone = shared
    return [*groups.values()]


def unfinished(names: Iterable[str], out: Path) -> Mapping[str, list[str]]:
    """For each data set the models that lack a file of results."""
    found: dict[str, list[str]] = {}
    for dataset in DATASETS:
        wanted = [one for one in RESULTS if one.dataset == dataset]
        found[dataset] = [
            name for name in names if not all((out / f"{one.name(name)}.json").exists() for one in wanted)
        ]
    return found


def measure(data: Path, names: Sequence[str], out: Path, limit: int | None) -> None:
    """Predict and score whatever is not finished; under torchrun, the first process writes the results."""
    pairs_of = {dataset: open_pairs(dataset, data) for dataset in DATASETS}
    todo = unfinished(names, out)  # known to all processes before the first result is written
    groups = on_shared_backbones(dict.fromkeys(name for left in todo.values() for name in left))
    parts = out / "table1_parts"
    parts.mkdir(parents=True, exist_ok=True)
    for dataset, left in todo.items():
        pairs = pairs_of[dataset]
        for group in groups:
            members = {name: matcher for name, matcher in group.items() if name in left}
            if not members:
                continue
            files = {parts / f"{dataset}_{name}.npz": matcher for name, matcher in members.items()}
            done = predict_side_by_side(files, pairs, limit=limit)
            for (name, path), one in zip(zip(members, files, strict=True), done, strict=True):
                if one.predictions is not None:
                    command = f"python -m benchmarks.table1 DATA --models {name}"
                    record_all(name, pairs, one.predictions, command, folder=out)
                    path.unlink()
    if rank_and_world_size()[0] == 0:
        if not any(parts.iterdir()):
            parts.rmdir()
        known = out / f"{TIMES}.json"
        timed = json.loads(known.read_text())["result"] if known.exists() else {}
        if not {*names} <= {*timed}:  # all of them in one run, or the times could not be compared
            every = [name for name in models() if name in (*timed, *names)]
            record_times(model_times(every, ROUNDS), "python -m benchmarks.table1 DATA", out)


def main() -> None:
    """Measure what is not measured yet, and write the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, nargs="?", help="without it, only the tables are written")
    parser.add_argument("--models", nargs="+", choices=[*models()], default=bundled_models())
    parser.add_argument("--limit", type=int, help="pairs of each data set, for a trial; needs --out")
    parser.add_argument("--out", type=Path, default=FOLDER, help="a folder for results and tables")
    arguments = parser.parse_args()
    if arguments.limit is not None and arguments.out == FOLDER:
        parser.error("--limit is for a trial: give a folder of its own with --out")
    if arguments.data is not None:
        with in_contact():
            measure(arguments.data, arguments.models, arguments.out, arguments.limit)
    if rank_and_world_size()[0] == 0:
        write_tables(arguments.out)


if __name__ == "__main__":
    run(main)
