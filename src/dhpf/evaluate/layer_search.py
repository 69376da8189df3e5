"""The beam search for layers on a data set: all candidates of a step on each pair in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..data.pairs import Pair, PairDataset
from ..errors import InputError
from ..grid import resize_points
from ..matcher import Matcher
from ..methods.hpf import HPF
from ..progress import shown
from .beam_search import ALPHA, BEAM, MOST_LAYERS, Layers, Scored, Step, beam_search
from .metrics import photo_pck
from .pipeline import worker_threads
from .predict import default_workers
from .protocol import DIRECTIONS, Protocol, protocol_for

DIGITS = 9  # of a PCK; the same values, added up in another order, must count as the same


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
        Pairs that are matched side by side; by default one for each processor.
    report
        Called after each step.
    """
    method = matcher.method
    if not isinstance(method, HPF):
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

    def score(candidates: Sequence[Layers]) -> list[float]:
        return _scores(matcher, method, pairs, candidates, protocol, alpha, workers or default_workers())

    steps = []
    for step in beam_search(score, len(method.backbone.channels), beam, most_layers):
        report(step)
        steps.append(step)
    own = tuple(sorted(method.layers))
    reference = Scored(own, score([own])[0])
    return LayerSearch(len(pairs), excluded, skipped, protocol, alpha, tuple(steps), reference)


def _scores(
    matcher: Matcher,
    method: HPF,
    pairs: Sequence[Pair],
    candidates: Sequence[Layers],
    protocol: Protocol,
    alpha: float,
    workers: int,
) -> list[float]:
    """PCK of each candidate in percent."""
    everything = tuple(range(len(method.backbone.channels)))
    whole, *each = (
        HPF(method.backbone, replace(method.config, layers=layers)) for layers in (everything, *candidates)
    )
    seeing = Matcher(whole, matcher.name, matcher.size, matcher.device)

    def of_pair(pair: Pair) -> list[float]:
        """All candidates on one pair, whose images go through the backbone once."""
        photos = pair.source, pair.target
        a, b = (seeing.features(photo.image(), str(photo.path)).features for photo in photos)
        points = resize_points(pair.source.points, pair.source.size, seeing.size)
        landed = (one.match(a, b).flow.transfer(points) for one in each)
        predicted = (resize_points(place, seeing.size, pair.target.size) for place in landed)
        return [photo_pck(pair.target, place, protocol, [alpha])[0] for place in predicted]

    with worker_threads(workers) as pool:
        found = [*shown(pool.map(of_pair, pairs), f"{len(candidates)} sets of layers", len(pairs))]
    weights = [len(pair.source.points) for pair in pairs] if protocol.average == "point" else None
    return [round(float(value), DIGITS) for value in np.average(found, axis=0, weights=weights)]


def _usable(
    dataset: PairDataset, exclude: PairDataset | None
) -> tuple[list[Pair], int, tuple[tuple[str, str], ...]]:
    """The pairs to search on; how many were excluded; which were skipped, and why."""
    others = () if exclude is None else exclude.entries
    taken = {frozenset((entry.source, entry.target)) for entry in others}
    kept = [i for i, e in enumerate(dataset.entries) if frozenset((e.source, e.target)) not in taken]
    found = [dataset[index] for index in kept]
    pairs = [pair for pair in found if len(pair.source.points)]
    if not pairs:
        raise InputError(f"{dataset.root}: no pair of {dataset.name}, {dataset.split} is left to search on")
    skipped = tuple((pair.id, "no common points") for pair in found if not len(pair.source.points))
    return pairs, len(dataset) - len(kept), skipped
