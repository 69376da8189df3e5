"""The beam search for layers on a data set: each image through the backbone once, then step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..data.pairs import Pair, PairDataset
from ..errors import InputError
from ..evaluate.pipeline import worker_threads
from ..evaluate.predict import default_workers
from ..evaluate.protocol import DIRECTIONS, Protocol, protocol_for
from ..files import cache_folder
from ..matcher import Matcher
from ..model.network import HPF
from .beam_search import ALPHA, BEAM, MOST_LAYERS, Extension, Layers, Scored, Step, beam_search
from .block_file import BlockFile
from .pair_scores import PairScores


@dataclass(frozen=True)
class LayerSearch:
    """The result, and what it was measured on."""

    pairs: int
    excluded: int  # pairs that another split holds too
    skipped: tuple[tuple[str, str], ...]  # pair id, reason
    protocol: Protocol
    alpha: float
    steps: tuple[Step, ...]
    reference: Scored  # the layers that the model has now

    @property
    def found(self) -> Scored:
        """The best set of all steps; of equal ones, that with fewer layers."""
        return max((step.beam[0] for step in self.steps), key=lambda scored: scored.pck)

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""

        def plain(scored: Scored) -> dict[str, Any]:
            return {"layers": list(scored.layers), "pck": round(scored.pck, 4)}

        return {
            "protocol": self.protocol.described() | {"fingerprint": self.protocol.fingerprint()},
            "alpha": self.alpha,
            "pairs": self.pairs,
            "excluded": self.excluded,
            "skipped": [{"pair": pair, "reason": reason} for pair, reason in self.skipped],
            "steps": [{"tried": step.tried, "beam": [plain(s) for s in step.beam]} for step in self.steps],
            "found": plain(self.found),
            "reference": plain(self.reference),
        }


def search_layers(
    matcher: Matcher,
    dataset: PairDataset,
    *,
    exclude: PairDataset | None = None,
    every: int = 1,
    beam: int = BEAM,
    most_layers: int = MOST_LAYERS,
    protocol: Protocol | None = None,
    alpha: float = ALPHA,
    workers: int | None = None,
    report: Callable[[Step], None] = lambda step: None,
) -> LayerSearch:
    """Find the layers with the highest PCK on a data set.

    Parameters
    ----------
    matcher
        Of a model with fixed layers, which are scored beside those found; its backbone is searched.
    exclude
        Leave out pairs that are in this split too, in either order, so that nothing is tuned on them.
    every
        Search on every n-th pair only, for time.
    beam
        Sets that are kept in each step.
    protocol, alpha
        Of the PCK; by default the data set's protocol.
    workers
        Threads; by default one for each processor.
    report
        Called after each step.
    """
    if not isinstance(matcher.network, HPF):
        raise InputError(
            f"{matcher.name} chooses its layers by itself; beam search needs a model of fixed layers"
        )
    if min(beam, most_layers, every) < 1 or not alpha > 0:
        given = f"beam {beam}, at most {most_layers} layers, every {every}, alpha {alpha:g}"
        raise InputError(f"{given}: all must be above 0")
    protocol = protocol or protocol_for(dataset.name)
    pairs, excluded, skipped = _usable(dataset, exclude)
    pairs = pairs[::every]
    if protocol.direction != DIRECTIONS[0]:
        pairs = [pair.swap() for pair in pairs]
    backbone, own = matcher.network.backbone, tuple(sorted(matcher.network.layers))
    everything = Matcher(
        HPF(backbone, range(len(backbone.channels))), matcher.name, matcher.size, matcher.device
    )
    photos = {(photo.path, photo.mirrored): photo for pair in pairs for photo in (pair.source, pair.target)}
    workers = workers or default_workers()
    cache_folder().mkdir(parents=True, exist_ok=True)
    steps = []
    with worker_threads(workers) as pool:
        blocks = BlockFile(everything, list(photos.values()), cache_folder(), pool)
        scores = PairScores(pairs, blocks, protocol, alpha, pool, workers)
        figures: dict[Layers, float] = {}

        def score(candidates: Sequence[Extension]) -> list[float]:
            also = [] if figures else [Extension(own[:-1], own[-1])]  # the first step takes it along
            asked = [*candidates, *also]
            figures.update(zip((each.layers for each in asked), scores(asked), strict=True))
            return [figures[candidate.layers] for candidate in candidates]

        for step in beam_search(score, len(backbone.channels), beam, most_layers):
            report(step)
            steps.append(step)
    return LayerSearch(
        len(pairs), excluded, skipped, protocol, alpha, tuple(steps), Scored(own, figures[own])
    )


def _usable(
    dataset: PairDataset, exclude: PairDataset | None
) -> tuple[list[Pair], int, tuple[tuple[str, str], ...]]:
    """The pairs to search on; how many were excluded; which were skipped, and why."""
    taken = (
        {frozenset((entry.source, entry.target)) for entry in exclude.entries}
        if exclude is not None
        else set()
    )
    kept = [i for i, e in enumerate(dataset.entries) if frozenset((e.source, e.target)) not in taken]
    pairs, skipped = [], []
    for index in kept:
        pair = dataset[index]
        if len(pair.source.points):
            pairs.append(pair)
        else:
            skipped.append((pair.id, "no common points"))
    if not pairs:
        raise InputError(f"{dataset.root}: no pair of {dataset.name}, {dataset.split} is left to search on")
    return pairs, len(dataset) - len(kept), tuple(skipped)
