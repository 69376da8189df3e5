"""PCK on held-out pairs, by the same path as every match: no noise, the fast correlation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from ..data.pairs import Pair, PairDataset
from ..data.registry import DATASETS
from ..model.network import DHPF, Features
from ..model.transfer import Neighbourhoods, cell_offsets
from .batches import own_share
from .features import FeatureStore, StoredFeatures
from .transforming import sum_over_processes
from .views import View

ALPHA = 0.1


@torch.no_grad()
def validate(
    network: DHPF, sources: Sequence[PairDataset], store: FeatureStore, share: tuple[int, int]
) -> dict[str, float]:
    """PCK in percent at alpha 0.1 of each data set under its own kind of threshold, and their mean.

    Under several processes, each takes its share of the pairs, and all have the result.
    """
    network.eval()
    result: dict[str, float] = {}
    layers = []
    for source in sources:
        scores = torch.zeros(len(source))
        for index in own_share(len(source), share):
            pair = source[index]
            a, b = (features_of(store.get(photo, View()), store.size) for photo in (pair.source, pair.target))
            found = network.match(a, b)
            layers.append(len(found.layers[0]))
            scores[index] = pair_pck(pair, found.best[0].cpu().numpy(), a, b, store.size, source.name)
        result[f"{source.name}/{source.split}"] = float(sum_over_processes(scores).mean())
    result["mean"] = float(np.mean(list(result.values())))
    totals = sum_over_processes(torch.tensor([float(sum(layers)), float(len(layers))]))
    result["layers"] = float(totals[0] / totals[1])
    return result


def features_of(stored: StoredFeatures, size: tuple[int, int]) -> Features:
    """One photo's features as the network takes them."""
    blocks = {n: stored.block(n).permute(2, 0, 1)[None] for n in range(len(stored.blocks))}
    grid = stored.blocks[0].shape[0], stored.blocks[0].shape[1]
    return Features(blocks, tuple(p[None] for p in stored.pooled), (size[1], size[0]), grid)


def pair_pck(
    pair: Pair, best: np.ndarray, a: Features, b: Features, size: tuple[int, int], dataset: str
) -> float:
    """PCK of one pair from the best target of each source cell."""
    points = pair.source.points * (np.array(size) / pair.source.size)
    offsets = Neighbourhoods(cell_offsets(best, a.grid, b.grid[1]))
    return points_pck(pair, points + offsets.mean(points[:, 0], points[:, 1]), size, dataset)


def points_pck(pair: Pair, predicted: np.ndarray, size: tuple[int, int], dataset: str) -> float:
    """Share of the pair's points that land within alpha of the data set's length, in pixels of the input."""
    scale = np.array(size) / pair.target.size
    truth = pair.target.points * scale
    threshold = DATASETS[dataset].threshold if dataset in DATASETS else "image"
    if threshold == "box" and pair.target.box is not None:
        length = ((pair.target.box[2:] - pair.target.box[:2]) * scale).max()
    elif threshold == "keypoints":
        length = (truth.max(axis=0) - truth.min(axis=0)).max()
    else:
        length = max(size)
    right = np.linalg.norm(predicted - truth, axis=1) <= ALPHA * length
    return 100 * float(right.mean())
