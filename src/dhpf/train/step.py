"""One step: the gates decide, the chosen blocks are transformed and matched, the losses are taken.

B pairs of this process  L layers  K points of a pair
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ..losses.layer_rate import layer_rate_loss
from ..losses.strong import importance, nearest_cells, strong_loss, target_distributions
from ..losses.weak import weak_loss
from ..model.correlation import Grid
from ..model.gating import NEGLIGIBLE, gumbel_noise
from ..model.hough import HoughSpace
from ..model.matching import match_cells
from ..model.network import DHPF
from ..model.transfer import Neighbourhoods, cell_offsets
from ..model.transform import RHO, Transform
from .batches import Position, Sample, own_share
from .config import LossConfig
from .early_gradient import entropy_at_once
from .features import StoredFeatures
from .gated_pair import Blocks, GatedPair
from .transforming import sum_over_processes, transformed

NEARLY_RIGHT = 0.1  # delta_thres and the training PCK: that share of the larger side


class StepResult(NamedTuple):
    """What a step found; only the loss has a gradient."""

    loss: Tensor
    terms: dict[str, float]  # by name; of this process's pairs


class Learner(nn.Module):
    """The network with its objective: what several processes train together.

    Parameters
    ----------
    size
        Width and height of the network's input.
    statistics
        Whose batch norms use the batch's statistics instead of those measured before training: ``all``, as
        published, ``gates`` or ``none``. With the gates' own, a gate cannot be on for all pairs or for none;
        without the transformations', a layer that is off need not be computed.
    share
        The number of this process and of all processes.
    """

    def __init__(
        self,
        network: DHPF,
        loss: LossConfig,
        size: tuple[int, int],
        *,
        seed: int = 0,
        statistics: str = "gates",
        mixed_precision: bool = False,
        share: tuple[int, int] = (0, 1),
    ) -> None:
        super().__init__()
        self.network, self.config, self.size, self.seed = network, loss, size, seed
        self.statistics, self.mixed_precision, self.share = statistics, mixed_precision, share
        self.batch_statistics = statistics == "all"  # of the transformations

    def forward(self, position: Position, samples: Sequence[Sample]) -> StepResult:
        """The losses of this process's share of a batch; for the weak objective, negative pairs come last."""
        seed = np.random.SeedSequence((self.seed, position.epoch, position.step)).generate_state(1)
        generator = torch.Generator().manual_seed(int(seed[0]))
        count = len(position.indices)
        slots = [*own_share(count, self.share)]
        if self.config.objective == "weak":
            slots += [count + slot for slot in slots]
            count *= 2
        everyone = self._decide(samples, slots, count, generator)
        on = everyone[slots]  # (B, L)
        weights = self._weights(on)
        blocks = self._blocks(samples, weights.detach() > NEGLIGIBLE**2, generator)
        grids = samples[0].source.blocks[0].shape[:2], samples[0].target.blocks[0].shape[:2]
        pairs = [GatedPair(own, weight, *grids) for own, weight in zip(blocks, weights, strict=True)]
        objective = self._strong if self.config.objective == "strong" else self._weak
        match, terms = objective(samples, pairs, count)
        select, l1 = layer_rate_loss(everyone, self.config.mu), everyone.abs().mean()
        loss = match + self.config.select * select + self.config.l1 * l1
        terms |= {"match": match.item(), "select": select.item(), "layers": on.detach().sum(1).mean().item()}
        return StepResult(loss, terms)

    def _decide(
        self, samples: Sequence[Sample], slots: Sequence[int], count: int, generator: torch.Generator
    ) -> Tensor:
        """Gates of the whole batch over all processes, (count, L): their inputs are small, all have all."""
        channels = list(self.network.backbone.channels)
        own = torch.stack([torch.cat([*s.source.pooled, *s.target.pooled]) for s in samples])
        inputs = own.new_zeros(count, own.shape[1])
        inputs[slots] = own
        inputs = sum_over_processes(inputs.to(self._device()))
        pooled_a, pooled_b = (torch.split(side, channels, 1) for side in inputs.chunk(2, 1))
        noise = gumbel_noise((count, len(channels), 2), generator).to(inputs.device)
        self.network.gates.train(self.statistics != "none" and count > 1)  # one pair has no variance
        on: Tensor = self.network.gates(pooled_a, pooled_b, noise).on
        return on

    def _weights(self, on: Tensor) -> Tensor:
        """What multiplies each layer's products and squared norms, (B, L). Where all layers are off, the base
        block counts all the same, as when matching."""
        none_on = (on.detach() <= NEGLIGIBLE).all(1, keepdim=True)
        base = torch.zeros_like(on[0]).index_fill(0, torch.tensor([0], device=on.device), 1.0)
        return (on if self.network.kind.once else on.square()) + none_on * base

    def _blocks(
        self, samples: Sequence[Sample], takes_part: Tensor, generator: torch.Generator
    ) -> list[Blocks]:
        """Transform the layers that take part (B, L); and where a gate enters once, the others without
        gradients, because the gates learn from them."""
        found = [Blocks({}, {}) for _ in samples]
        for layer, used in enumerate(takes_part.T.tolist()):
            mask = self._kept_channels(layer, generator)
            for learns in (True, False):
                pairs = [n for n, flag in enumerate(used) if flag == learns or self.batch_statistics]
                if not pairs or not (learns or (self.network.kind.once and not self.batch_statistics)):
                    continue
                sides = [*(samples[n].source for n in pairs), *(samples[n].target for n in pairs)]
                stacked = _stacked(sides, layer, self._device())
                with torch.set_grad_enabled(learns and torch.is_grad_enabled()):
                    done = (self._transformed(layer, stacked) * mask).unbind(0)
                for n, a, b in zip(pairs, done[: len(pairs)], done[len(pairs) :], strict=True):
                    found[n].source[layer], found[n].target[layer] = a, b
        return found

    def _transformed(self, layer: int, blocks: Tensor) -> Tensor:
        """Of sources and then targets; as published, each side has its own batch statistics."""
        if not self.network.kind.transform:
            return blocks
        transform = self.network.transforms[layer]
        if not isinstance(transform, Transform):
            raise TypeError("a folded network cannot be trained")
        sides = blocks.chunk(2) if self.batch_statistics else (blocks,)
        with torch.autocast(blocks.device.type, torch.bfloat16, enabled=self.mixed_precision):
            done = [transformed(transform, side, self.batch_statistics).float() for side in sides]
        return torch.cat(done) if len(done) > 1 else done[0]

    def _kept_channels(self, layer: int, generator: torch.Generator) -> Tensor:
        """1 or 0 for each transformed channel, of both photos alike."""
        channels = self.network.backbone.channels[layer]
        kept = torch.rand(channels // RHO if self.network.kind.transform else channels, generator=generator)
        return (kept >= self.config.dropout).float().to(self._device())

    def _strong(
        self, samples: Sequence[Sample], pairs: Sequence[GatedPair], count: int
    ) -> tuple[Tensor, dict[str, float]]:
        losses, right = [], []
        threshold = torch.tensor([NEARLY_RIGHT * max(self.size)])
        for sample, pair in zip(samples, pairs, strict=True):
            cells = nearest_cells(sample.source_points, pair.grid_a)
            found = match_cells(pair.correlation(), self._space())
            predicted = _transfer(found.best, sample.source_points, pair.grid_a, pair.grid_b)
            omega = importance(predicted[None], sample.target_points[None], threshold)
            right.append((omega < 1).float().mean())
            if not self.config.omega:
                omega = torch.ones_like(omega)
            cells = cells.to(found.best.device)
            rows = pair.rows(cells) * found.votes.of_cells(cells)
            wanted = target_distributions(sample.target_points, pair.grid_b, self.config.spread)
            valid = torch.ones_like(omega, dtype=torch.bool)
            result = strong_loss(rows[None], wanted[None].to(rows), valid.to(rows.device), omega.to(rows))
            losses.append(result.loss)
        # Processes are averaged, and may have different numbers of pairs.
        loss = torch.stack(losses).sum() * (self.share[1] / count)
        return loss, {"pck": 100 * torch.stack(right).mean().item()}

    def _weak(
        self, samples: Sequence[Sample], pairs: Sequence[GatedPair], count: int
    ) -> tuple[Tensor, dict[str, float]]:
        entropies = torch.stack([entropy_at_once(pair, self._space()) for pair in pairs])
        sums = torch.stack([half.sum() for half in entropies.chunk(2)])
        positive, negative = sum_over_processes(sums) / (count // 2)
        terms = {"positive": positive.item(), "negative": negative.item()}
        return weak_loss(positive, negative), terms

    def _space(self) -> HoughSpace:
        side = self.size[1], self.size[0]
        return self.network.space(side, side)

    def _device(self) -> torch.device:
        return self.network.backbone.conv1.weight.device


def _stacked(sides: Sequence[StoredFeatures], layer: int, device: torch.device) -> Tensor:
    """One layer's blocks, (n, h, w, C) in float32."""
    if device.type != "cpu":
        return torch.stack([side.block(layer).to(device) for side in sides])
    stacked = torch.empty(len(sides), *sides[0].blocks[layer].shape)
    for out, side in zip(stacked, sides, strict=True):
        out.copy_(torch.from_numpy(side.blocks[layer]))
    return stacked


def _transfer(best: Tensor, points: Tensor, grid_a: Grid, grid_b: Grid) -> Tensor:
    """Where points (K, 2) of the input land, as when matching."""
    offsets = Neighbourhoods(cell_offsets(best.cpu().numpy(), grid_a, grid_b[1]))
    x, y = points.numpy().astype(np.float64).T
    return points + torch.from_numpy(offsets.mean(x, y)).float()
