"""Section 3.4 for dynamic hyperpixels: gates decide, chosen blocks are transformed and matched, losses taken.

B pairs of this process  L layers  C channels of a layer, C' reduced  h, w its grid  n features
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import torch
from torch import Tensor, nn

from ..backbones.base import Backbone, Features
from ..backbones.lora import LoRA
from ..losses.layer_rate import layer_rate_loss
from ..losses.strong import importance, strong_loss, target_distributions
from ..losses.weak import gradient_at_once, pair_entropy, weak_loss
from ..model.correlation import Correlation, correlate
from ..model.gating import NEGLIGIBLE, gumbel_noise
from ..model.hyperimage import Hyperimage, build_hyperimage, cosines
from ..model.matching import Strongest, match_cells, strongest_matches
from ..model.readout import argmax_flow
from ..model.soft_matching import kernel_soft_argmax
from ..processes import sum_over_processes
from .base import Batch, TrainingPair

if TYPE_CHECKING:
    from .dhpf import DHPF, DHPFObjective

NEARLY_RIGHT = 0.1  # delta_thres and the training PCK: that fraction of the larger side

# Of source and target, by a layer's place among those that the gates choose from: (h, w, C').
Blocks = tuple[dict[int, Tensor], dict[int, Tensor]]
Images = dict[int, dict[int, Tensor]]  # the same of each image, by the identity of its features
Sides = tuple[Images, Images]  # as sources and as targets: the same, unless batch norms tell them apart
Key = tuple[int, int]  # an image on a side


class Direction(NamedTuple):
    """From one image of a pair to the other."""

    source: Key
    cells: Tensor  # (K,) of the source's grid
    target: Key
    truth: Tensor  # (K, 2) in pixels of the target
    weight: Tensor  # (L,) of the layers


def dhpf_losses(method: DHPF, batch: Batch, objective: DHPFObjective) -> dict[str, Tensor]:
    """The terms of the loss, and what is shown beside them."""
    if method.lora is not None:
        batch = batch._replace(pairs=_with_updates(method.lora, method.backbone, batch.pairs, objective))
    method.gates.train(objective.bn_mode != "none" and batch.total > 1)  # one pair has no variance
    method.transforms.train(objective.bn_mode == "all")
    everyone = _decide(method, batch)  # (all pairs, L)
    on = everyone[batch.slots]  # (B, L)
    # Where all layers are off, the base block counts all the same, as when matching.
    base = nn.functional.one_hot(torch.zeros(len(on), dtype=torch.long, device=on.device), on.shape[1])
    weights = on**method.config.gate_power + (on.detach() <= NEGLIGIBLE).all(1, keepdim=True) * base
    takes_part = weights.detach() > NEGLIGIBLE**2
    sides = _transformed(method, batch, takes_part, objective)
    if method.config.soft and objective.objective == "strong":
        terms = _soft(method, batch, sides, weights, objective)
    else:
        matching = _weak if objective.objective == "weak" else _strong
        terms = matching(method, batch, _of_pairs(method, batch, sides, takes_part), weights, objective)
    terms["select"] = objective.select * layer_rate_loss(everyone, objective.mu)
    if objective.l1:
        terms["l1"] = objective.l1 * everyone.abs().mean()
    return terms | {"_layers": on.detach().sum(1).mean()}


def _with_updates(
    lora: LoRA, backbone: Backbone, pairs: Sequence[TrainingPair], objective: DHPFObjective
) -> list[TrainingPair]:
    """Each image with the updated layers computed anew, once for all of its pairs."""
    images = _images(pairs)
    with _precision(backbone, objective):
        anew = dict(zip(map(id, images), lora(backbone, images), strict=True))
    return [pair._replace(source=anew[id(pair.source)], target=anew[id(pair.target)]) for pair in pairs]


def _precision(backbone: Backbone, objective: DHPFObjective) -> AbstractContextManager[object]:
    """bfloat16 where it is asked for; on a CPU, where that is not slower."""
    kind = backbone.device.type
    if not objective.bfloat16 or (kind == "cpu" and not torch.cpu._is_avx512_bf16_supported()):
        return nullcontext()
    return torch.autocast(kind, torch.bfloat16)


def _decide(method: DHPF, batch: Batch) -> Tensor:
    """Gates of the whole batch over all processes, (count, L): their inputs are small, all have all."""
    device, channels = method.backbone.device, [method.backbone.channels[n] for n in method.layers]
    own = torch.stack(
        [torch.cat([p.source.pooled[n] + p.target.pooled[n] for n in method.layers]) for p in batch.pairs]
    ).to(device)
    inputs = own.new_zeros(batch.total, own.shape[1])
    inputs[batch.slots] = own
    pooled = torch.split(sum_over_processes(inputs), channels, 1)
    noise = gumbel_noise((batch.total, len(channels), 2), batch.generator).to(device)
    on: Tensor = method.gates(pooled, noise).on
    return on


def _transformed(method: DHPF, batch: Batch, takes_part: Tensor, objective: DHPFObjective) -> Sides:
    """Transform the layers that take part (B, L), each image once. Where gates learn from the others too,
    those as well, without gradients."""
    everyone = method.transforms.training  # batch statistics are of all pairs
    images: Images = {id(one): {} for one in _images(batch.pairs)}
    sides = (images, {key: {} for key in images} if everyone else images)
    for place, used in enumerate(takes_part.T.tolist()):
        layer = method.layers[place]
        mask = _kept_channels(method, place, objective.dropout, batch.generator)
        seed = int(torch.randint(2**31, (1,), generator=batch.generator)) if objective.noise else 0
        learning = _images(pair for pair, flag in zip(batch.pairs, used, strict=True) if flag)
        resting = [one for one in _images(batch.pairs) if one not in learning]
        jobs = [(learning, True, images), (resting if _also_off(method) else [], False, images)]
        if everyone:  # as published, each side has its own batch statistics
            jobs = [([pair.source for pair in batch.pairs], True, sides[0])]
            jobs.append(([pair.target for pair in batch.pairs], True, sides[1]))
        for taken, learns, found in jobs:
            if not taken:
                continue
            blocks = _stacked([one.blocks[layer] for one in taken], method.backbone.device)
            if objective.noise and method.config.perceptron:
                spread = objective.noise * method.transforms[place].get_buffer("deviation")
                noise = _noise([one.pooled[method.layers[0]] for one in taken], seed, blocks)
                blocks = torch.addcmul(blocks, spread, noise)
            with torch.set_grad_enabled(learns and torch.is_grad_enabled()):
                with _precision(method.backbone, objective):
                    reduced = method.transform(place, blocks)
                transformed = reduced.to(blocks) * mask
            for one, block in zip(taken, transformed.unbind(0), strict=True):
                found[id(one)][place] = block
    return sides


def _also_off(method: DHPF) -> bool:
    """Whether layers that are off are transformed: gates that enter once learn from them."""
    once = method.config.gate_power == 1 or method.config.soft
    return once and not method.transforms.training


def _of_pairs(method: DHPF, batch: Batch, sides: Sides, takes_part: Tensor) -> list[Blocks]:
    """What each pair needs; from a layer that is off for it, nothing is learned."""
    found: list[Blocks] = []
    for pair, flags in zip(batch.pairs, takes_part.tolist(), strict=True):
        blocks: Blocks = ({}, {})
        for one, images, taken in zip((pair.source, pair.target), sides, blocks, strict=True):
            for place, block in images[id(one)].items():
                if flags[place] or method.transforms.training:
                    taken[place] = block
                elif _also_off(method):
                    taken[place] = block.detach()
        found.append(blocks)
    return found


def _images(pairs: Iterable[TrainingPair]) -> list[Features]:
    """Each image of some pairs once."""
    return list({id(one): one for pair in pairs for one in (pair.source, pair.target)}.values())


def _stacked(blocks: Sequence[Tensor], device: torch.device) -> Tensor:
    """(n, h, w, C), no longer in float16."""
    return torch.stack([block.to(device, torch.get_default_dtype()) for block in blocks])


def _noise(pooled: Sequence[Tensor], seed: int, like: Tensor) -> Tensor:
    """(n, h, w, C), the same for an image, which its first layer tells from others, whichever process has
    it."""
    noise = torch.empty(like.shape)
    for own, one in zip(noise, pooled, strict=True):
        own.normal_(generator=torch.Generator().manual_seed(seed + crc32(one.cpu().numpy().tobytes())))
    return noise.to(like)


def _kept_channels(method: DHPF, place: int, dropout: float, generator: torch.Generator) -> Tensor:
    """1 or 0 for each transformed channel, the same for both images."""
    channels = method.backbone.channels[method.layers[place]]
    if method.config.transform:
        channels = method.config.perceptron or method.transforms[place].get_parameter("0.weight").shape[0]
    kept = torch.rand(channels, generator=generator) >= dropout
    return kept.float().to(method.backbone.device)


def _correlation(method: DHPF, pair: TrainingPair, blocks: Blocks, weights: Tensor) -> Correlation:
    """Of the layers that were transformed, each with its weight (L,)."""
    layers = sorted(blocks[0])
    a, b = ([side[layer] for layer in layers] for side in blocks)
    return correlate(a, b, pair.source.grid, pair.target.grid, method.config.epsilon, weights[layers])


@torch.no_grad()
def _active(method: DHPF, pair: TrainingPair, blocks: Blocks, weights: Tensor) -> Correlation:
    """The same without gradients, and without the layers that are off."""
    layers = (weights > NEGLIGIBLE**2).nonzero().flatten().tolist()
    a, b = ({layer: side[layer].detach() for layer in layers} for side in blocks)
    return _correlation(method, pair, (a, b), weights.detach())


def _strong(
    method: DHPF, batch: Batch, blocks: Sequence[Blocks], weights: Tensor, objective: DHPFObjective
) -> dict[str, Tensor]:
    losses, right = [], []
    for pair, own, weight in zip(batch.pairs, blocks, weights, strict=True):
        correlation = _correlation(method, pair, own, weight)
        some_off = bool((weight[sorted(own[0])] <= NEGLIGIBLE**2).any())
        active = _active(method, pair, own, weight) if some_off else correlation.detach()
        found = match_cells(active, method.config.voting)
        flow = argmax_flow(found.best, found.confidence, pair.source.grid, pair.target.grid)
        points, truth = pair.source_points.cpu(), pair.target_points.cpu()
        predicted = torch.from_numpy(flow.transfer(points.double().numpy())).to(points)
        threshold = NEARLY_RIGHT * pair.target.grid.stride * max(pair.target.grid.shape)
        omega = importance(predicted, truth, threshold)
        right.append((omega < 1).float().mean())
        if not objective.omega:
            omega = torch.ones_like(omega)
        cells = pair.source.grid.nearest(points).to(weight.device)
        rows = correlation.rows(cells) * found.votes.of_cells(cells)
        targets = target_distributions(truth, pair.target.grid, objective.target_sigma)
        losses.append(strong_loss(rows, targets.to(rows), omega.to(rows)))
    # Processes are averaged, and may have different numbers of pairs.
    loss = torch.stack(losses).sum() * (batch.world_size / batch.total)
    return {"match": loss, "_pck": 100 * torch.stack(right).mean()}


def _soft(
    method: DHPF, batch: Batch, sides: Sides, weights: Tensor, objective: DHPFObjective
) -> dict[str, Tensor]:
    """Cross-entropy of the distributions over the target's cells, from either image to the other: nearly
    all of the work is in the blocks, which both directions and all pairs of an image share."""
    images = {id(one): one for one in _images(batch.pairs)}

    @cache
    def whole(key: Key) -> Hyperimage:
        blocks = sides[key[0]][key[1]]
        return build_hyperimage([blocks[place] for place in sorted(blocks)], images[key[1]].block_grid)

    directions: list[Direction] = []
    for pair, weight in zip(batch.pairs, weights, strict=True):
        source, target = (0, id(pair.source)), (int(sides[0] is not sides[1]), id(pair.target))
        points, truth = pair.source_points.to(weight), pair.target_points.to(weight)
        directions.append(Direction(source, pair.source.grid.nearest(points), target, truth, weight))
        directions.append(Direction(target, pair.target.grid.nearest(truth), source, points, weight))
    cells: dict[Key, list[Tensor]] = defaultdict(list)
    for one in directions:
        cells[one.source].append(one.cells)
    # All cells of an image are read at once, as each reading has a gradient of the hyperimage's size.
    read = {
        key: iter(whole(key).at(torch.cat(some), images[key[1]].grid).split([len(each) for each in some]))
        for key, some in cells.items()
    }
    losses, right = [], []
    for one in directions:
        grid = whole(one.target).grid
        similar = cosines(next(read[one.source]), whole(one.target), one.weight) / method.temperature()
        predicted, _ = kernel_soft_argmax(similar.detach(), grid, method.config.sigma)
        omega = importance(predicted, one.truth, NEARLY_RIGHT * grid.stride * max(grid.shape))
        right.append((omega < 1).to(one.weight).mean())
        targets = target_distributions(one.truth, grid, objective.target_sigma)
        each = -(targets * similar.log_softmax(1)).sum(1)
        losses.append((each * omega if objective.omega else each).mean())
    loss = torch.stack(losses).sum() * (batch.world_size / (2 * batch.total))
    return {"match": loss, "_pck": 100 * torch.stack(right).mean()}


def _weak(
    method: DHPF, batch: Batch, blocks: Sequence[Blocks], weights: Tensor, objective: DHPFObjective
) -> dict[str, Tensor]:
    entropies = []
    for pair, own, weight in zip(batch.pairs, blocks, weights, strict=True):
        strongest = strongest_matches(_active(method, pair, own, weight), method.config.voting)
        layers = sorted(own[0])

        def entropy(
            inputs: list[Tensor],
            pair: TrainingPair = pair,
            layers: list[int] = layers,
            strongest: Strongest = strongest,
        ) -> Tensor:
            sides = inputs[: len(layers)], inputs[len(layers) : -1]
            a, b = (dict(zip(layers, side, strict=True)) for side in sides)
            return pair_entropy(_correlation(method, pair, (a, b), inputs[-1]), strongest)

        inputs = [*(side[layer] for side in own for layer in layers), weight]
        entropies.append(gradient_at_once(entropy, inputs))
    sums = torch.stack([half.sum() for half in torch.stack(entropies).chunk(2)])
    positive, negative = sum_over_processes(sums) / (batch.total // 2)
    shown = {"_positive": positive.detach(), "_negative": negative.detach()}
    return {"match": weak_loss(positive, negative), **shown}
