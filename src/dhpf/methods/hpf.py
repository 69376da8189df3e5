"""Hyperpixel flow: correlation of chosen layers, Hough votes, mutual filter, argmax. Nothing to train.

The method's parent has a fixed set of layers, used as they are; ``dhpf.py`` chooses and transforms them.
"""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..backbones.base import Backbone, Features
from ..errors import InputError
from ..model.correlation import PUBLISHED_EPSILON, Correlation, correlate
from ..model.hough import BINNINGS
from ..model.matching import MATRIX_BYTES, Voting, match_cells
from ..model.readout import argmax_flow
from ..model.scores import MatchScores
from .base import Matches, Method


@dataclass(frozen=True)
class MatchingConfig:
    """How correlated layers are matched: as published, or a variant."""

    hough: str = BINNINGS[0]  # how votes are binned: exact, published; none: without votes
    revote: bool = False  # affine-conditioned re-voting
    epsilon: float = PUBLISHED_EPSILON  # added to the product of norms; 0 for the paper's plain cosine

    def __post_init__(self) -> None:
        if self.hough not in (*BINNINGS, "none"):
            raise InputError(f"hough = {self.hough!r}; wanted: {', '.join((*BINNINGS, 'none'))}")
        if not 0 <= self.epsilon <= 1:
            raise InputError(f"epsilon = {self.epsilon:g}; wanted from 0 to 1")
        if self.revote and self.hough == "none":
            raise InputError("revote = true votes again; it wants votes: hough = exact or published")

    @property
    def voting(self) -> Voting:
        """How matches vote."""
        return Voting(self.hough, self.revote)


@dataclass(frozen=True)
class HPFConfig(MatchingConfig):
    """Which layers, and how they are matched."""

    layers: tuple[int, ...] = ()


class HPF(Method):
    """Static hyperpixels."""

    name = "hpf"
    Config = HPFConfig

    def __init__(self, backbone: Backbone, config: HPFConfig) -> None:
        super().__init__(backbone, config)
        known, given = range(len(backbone.channels)), config.layers
        if not given or not set(given) <= set(known) or len(set(given)) < len(given):
            shown = reprlib.repr(list(given))
            raise InputError(f"layers = {shown}; wanted: some of the layers 0 to {known[-1]}, each once")

    @property
    def layers(self) -> Sequence[int]:
        """The fixed ones."""
        return tuple(self.config.layers)

    @torch.no_grad()
    def match(self, a: Features, b: Features, *, matrix_bytes: int | None = None) -> Matches:
        """Match two images."""
        blocks_a, blocks_b = ([side.blocks[layer].float() for layer in self.layers] for side in (a, b))
        correlation = correlate(blocks_a, blocks_b, a.grid, b.grid, self.config.epsilon)
        return matched(correlation, self.config, matrix_bytes)._replace(layers=tuple(self.layers))


def matched(correlation: Correlation, config: MatchingConfig, matrix_bytes: int | None) -> Matches:
    """What a correlation says: flow and scores."""
    bound = MATRIX_BYTES if matrix_bytes is None else matrix_bytes
    found = match_cells(correlation, config.voting, bound)
    flow = argmax_flow(found.best, found.confidence, correlation.grid_a, correlation.grid_b)
    return Matches(flow, scores=MatchScores(correlation, found.votes, found.column_maxima))
