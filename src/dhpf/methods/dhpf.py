"""Dynamic hyperpixel flow, the paper: gates choose layers for each pair, transformations reduce them.

B pairs  L layers  C channels of a layer, C' reduced  h, w its grid
"""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from ..backbones.base import Backbone, Features
from ..backbones.lora import LoRA
from ..errors import InputError
from ..model.correlation import correlate
from ..model.gating import GATINGS, NEGLIGIBLE, LayerGates
from ..model.soft_matching import SoftMatching, soft_match
from ..model.transform import Perceptron, Temperature, Transform
from .base import Batch, Matches, Method, check_layers
from .hpf import MatchingConfig, matched

READOUTS = ("argmax", "soft-argmax")
TEMPERATURE = 0.05  # of cosines, before it is learned


@dataclass(frozen=True)
class DHPFConfig(MatchingConfig):
    """What a head is made of: the method as published, or a variant of sections 4.1 and 4.2."""

    layers: tuple[int, ...] = ()  # that the gates choose from; all of the backbone's if none are named
    gating: str = "gumbel"  # gumbel (hard), sigmoid (soft) or none (all layers on)
    gate_power: int = 2  # the gate enters products and squared norms squared, as published, or once
    transform: bool = True  # reduce chosen blocks by 1x1 convolutions
    perceptron: int = 0  # or, with so many channels, by a perceptron
    readout: str = READOUTS[0]  # the best target cell, or the mean of a distribution over them
    vote_power: float = 0.5  # of soft-argmax: how much the votes count
    sigma: float = 2.0  # of soft-argmax: of its kernel, in cells of the target
    temperature_scale: float = 1.0  # of soft-argmax: noise in training makes the temperature too high
    lora_blocks: int = 0  # of a vision transformer: so many of the last have low-rank updates
    lora_rank: int = 16  # of each update

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gating not in GATINGS:
            raise InputError(f"gating = {self.gating!r}; wanted: {', '.join(GATINGS)}")
        if self.gate_power not in (1, 2):
            raise InputError(f"gate_power = {self.gate_power}; wanted: 1 or 2")
        if self.gating == "none" and not self.transform:
            raise InputError("nothing to learn: gating = none and transform = false")
        if self.readout not in READOUTS:
            raise InputError(f"readout = {self.readout!r}; wanted: {' or '.join(READOUTS)}")
        if self.soft and self.revote:
            raise InputError("revote = true is of readout = argmax only")
        limits = {"perceptron": (0.0, 4096.0), "vote_power": (0.0, 4.0)}
        limits |= {"sigma": (0.1, 100.0), "temperature_scale": (0.01, 100.0)}
        limits |= {"lora_blocks": (0, 23), "lora_rank": (1, 384)}
        for key, (low, high) in limits.items():
            if not low <= getattr(self, key) <= high:
                given = reprlib.repr(getattr(self, key))
                raise InputError(f"{key} = {given}; wanted from {low:g} to {high:g}")

    @property
    def soft(self) -> bool:
        """Whether matches are distributions."""
        return self.readout == "soft-argmax"


@dataclass(frozen=True)
class DHPFObjective:
    """What is minimised."""

    objective: str = "strong"  # from keypoints; weak: from image pairs
    omega: bool = True  # weigh points by how wrong they are, eq. (3)
    select: float = 1.0  # weight of the layer-rate loss
    mu: float = 0.5  # the layer rate
    l1: float = 0.0  # weight of the gates' mean, for sparse soft gates
    target_sigma: float = 0.0  # the target is a Gaussian of that many cells instead of a single one
    dropout: float = 0.0  # fraction of the transformed channels that is left out in a step
    noise: float = 0.0  # added to features before a perceptron, in their standard deviations
    bfloat16: bool = False  # compute updated blocks and transformations in it, where the processor can
    bn_mode: str = "gates"  # whose batch norms use the batch's statistics: all, as published; gates; none

    def __post_init__(self) -> None:
        choices = {"objective": ("strong", "weak"), "bn_mode": ("all", "gates", "none")}
        for key, known in choices.items():
            if getattr(self, key) not in known:
                raise InputError(f"{key} = {getattr(self, key)!r}; wanted: {' or '.join(known)}")
        limits = {"select": None, "mu": 1.0, "l1": None, "target_sigma": 20.0, "dropout": 0.9, "noise": 10.0}
        for key, most in limits.items():
            value = getattr(self, key)
            if value < 0 or (most is not None and value > most):
                wanted = "at least 0" if most is None else f"from 0 to {most:g}"
                raise InputError(f"{key} = {value:g}; wanted {wanted}")

    @property
    def needs_points(self) -> bool:
        """Whether pairs need keypoints."""
        return self.objective == "strong"

    @property
    def negatives(self) -> bool:
        """Whether pairs of different categories are needed as well."""
        return self.objective == "weak"


class DHPF(Method):
    """Dynamic hyperpixels."""

    name = "dhpf"
    Config = DHPFConfig
    Objective = DHPFObjective
    inits = ("random", "principal")
    config: DHPFConfig

    def __init__(self, backbone: Backbone, config: DHPFConfig | None = None) -> None:
        super().__init__(backbone, config)
        self._layers = check_layers(backbone, self.config.layers or range(len(backbone.channels)))
        channels = [backbone.channels[layer] for layer in self._layers]
        self.gates = LayerGates(channels, self.config.gating)
        reduced = self.config.perceptron
        kinds = (Perceptron(c, reduced) if reduced else Transform(c) for c in channels)
        self.transforms = nn.ModuleList(kinds if self.config.transform else ())
        if self.config.soft:
            self.temperature = Temperature(TEMPERATURE)
        self.lora: LoRA | None = None
        if self.config.lora_blocks:
            self.lora = LoRA(backbone, self.config.lora_blocks, self.config.lora_rank)
            for needed in (self.lora.needed, len(backbone.channels) - 1):
                if needed not in self.layers:
                    count = self.config.lora_blocks
                    raise InputError(f"lora_blocks = {count} needs layer {needed}; add it to layers")

    @property
    def layers(self) -> Sequence[int]:
        """Those that the gates choose from."""
        return self._layers

    def prepare(self, samples: Sequence[Features], generator: torch.Generator, init: str = "random") -> None:
        """Set initial weights, and the batch norms' statistics from some images' features."""
        from .initial_weights import initialise

        initialise(self, samples, generator, init)

    @torch.no_grad()
    def is_finite(self) -> bool:
        """Of all gates and transformations, for features that are larger than those of any image; also the
        squares that correlation takes."""
        self.eval()
        generator = torch.Generator().manual_seed(0)
        channels = [self.backbone.channels[layer] for layer in self.layers]
        inputs = [1e3 * torch.randn(8, count, generator=generator) for count in channels]
        found = [self.transform(place, one).square().sum() for place, one in enumerate(inputs)]
        if self.config.soft:
            found.append(1 / self.temperature())
        if self.lora is not None:
            found += self.lora.squares()
        return all(bool(value.isfinite().all()) for value in (*found, self.gates(inputs).probability))

    def for_inference(self) -> DHPF:
        """Fold batch norms into the transformations, and low-rank updates into the backbone."""
        self.eval()
        if self.lora is not None:
            self.backbone, self.lora = self.lora.merged(self.backbone), None
        folded = [part.folded() if isinstance(part, Transform) else part for part in self.transforms]
        self.transforms = nn.ModuleList(folded)
        return self.requires_grad_(False)

    @torch.no_grad()
    def own_features(self, features: Features) -> Features:
        """Low-rank updates and perceptrons take their time: here, once for all pairs of an image."""
        if self.lora is not None:
            features = self.lora(self.backbone, [features])[0]
        if not self.config.perceptron or not self.config.transform:
            return features
        like = features.pooled[self.layers[0]]  # stored blocks are in float16
        blocks = {n: self.transform(k, features.blocks[n].to(like)) for k, n in enumerate(self.layers)}
        return replace(features, blocks=blocks, transformed=True)

    @torch.no_grad()
    def match(self, a: Features, b: Features, *, matrix_bytes: int | None = None) -> Matches:
        """Match two images; layers that are off are not computed."""
        pooled = [(a.pooled[layer] + b.pooled[layer])[None] for layer in self.layers]
        decisions = self.gates(pooled)
        on, probability = decisions.on[0], decisions.probability[0]
        chosen = (on > NEGLIGIBLE).nonzero().flatten().tolist() or [0]  # all off: the base block
        weights = on[chosen] ** self.config.gate_power if self.config.gating == "sigmoid" else None
        blocks_a, blocks_b = ([self._block(side, place, on) for place in chosen] for side in (a, b))
        if self.config.soft:
            correlation = correlate(blocks_a, blocks_b, a.grid, b.block_grid, weights=weights)
            flow, scores = soft_match(correlation, a.block_grid, self.soft_matching)
            found = Matches(flow, scores=scores)
        else:
            correlation = correlate(blocks_a, blocks_b, a.grid, b.grid, self.config.epsilon, weights)
            found = matched(correlation, self.config, matrix_bytes)
        every = probability.new_zeros(len(self.backbone.channels))
        every[list(self.layers)] = probability
        return found._replace(layers=tuple(self.layers[n] for n in chosen), layer_probability=every)

    @property
    def soft_matching(self) -> SoftMatching:
        """How distributions are made and read."""
        power = 0.0 if self.config.hough == "none" else self.config.vote_power
        temperature = float(self.temperature()) * self.config.temperature_scale
        return SoftMatching(temperature, power, self.config.sigma)

    def _block(self, features: Features, place: int, like: Tensor) -> Tensor:
        block = features.blocks[self.layers[place]].to(like)
        return block if features.transformed else self.transform(place, block)

    def transform(self, place: int, blocks: Tensor) -> Tensor:
        """A block, by its place among the layers, as it enters the hyperimage: (..., C) -> (..., C')."""
        reduced: Tensor = self.transforms[place](blocks) if self.config.transform else blocks
        return reduced

    def losses(self, batch: Batch, objective: DHPFObjective) -> dict[str, Tensor]:
        """Section 3.4: the matching loss, the layer-rate loss and, for soft gates, an L1 penalty."""
        from .dhpf_training import dhpf_losses

        return dhpf_losses(self, batch, objective)
