"""Which layers make the best static hyperpixels: HPF's beam search on a validation set.

The best single layers are the first beam. In each step, every member of the beam is extended by every layer
that it lacks, and the best of these sets are the next beam. The best set of all steps is the result. (In the
published code the finest layer of a set fixes its grid, so only the first few layers are tried alone; here
the grid is always the backbone's base grid.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

BEAM, MOST_LAYERS, ALPHA = 4, 8, 0.1  # as published

Layers = tuple[int, ...]


class Scored(NamedTuple):
    """A set of layers and its PCK in percent."""

    layers: Layers
    pck: float


class Step(NamedTuple):
    """What one more layer brought."""

    tried: int  # sets of layers
    beam: tuple[Scored, ...]  # the best of them, best first


def beam_search(
    score: Callable[[Sequence[Layers]], Sequence[float]], layers: int, beam: int, most: int
) -> Iterator[Step]:
    """Search among the sets of up to ``most`` of ``layers`` layers.

    Deterministic: of sets that score the same, the one with the smaller layers comes first.
    """
    members: Sequence[Layers] = [()]
    for _ in range(min(most, layers)):
        extended = {tuple(sorted({*member, layer})) for member in members for layer in range(layers)}
        candidates = sorted(extended - set(members))
        found = [Scored(*pair) for pair in zip(candidates, score(candidates), strict=True)]
        best = sorted(found, key=lambda scored: (-scored.pck, scored.layers))[:beam]
        yield Step(len(candidates), tuple(best))
        members = [scored.layers for scored in best]
