"""PCK on held-out pairs, by the same path as every match: no noise, the fast correlation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from ..data.pairs import Pair, PairDataset
from ..evaluate.metrics import photo_pck
from ..evaluate.protocol import IN_SQUARE, PAPER, protocol_for
from ..grid import resize_points
from ..methods.base import Method
from ..processes import sum_over_processes
from .augmentation import Augmentation
from .batches import own_share
from .features import FeatureStore

ALPHA = 0.1


@torch.no_grad()
def validate(
    method: Method, sources: Sequence[PairDataset], store: FeatureStore, rank: int, world_size: int
) -> dict[str, float]:
    """PCK in percent at alpha 0.1 of each data set under its own kind of threshold, and their mean.

    Under several processes, each takes its share of the pairs, and all have the result.
    """
    method.eval()
    device = method.backbone.device
    result: dict[str, float] = {}
    layers: list[int] = []
    for source in sources:
        scores = torch.zeros(len(source), device=device)
        for index in own_share(len(source), rank, world_size):
            pair = source[index]
            a, b = (store.get(photo, Augmentation()).to(device) for photo in (pair.source, pair.target))
            found = method.match(method.own_features(a), method.own_features(b))
            layers += [] if found.layers is None else [len(found.layers)]
            points = resize_points(pair.source.points, pair.source.size, store.size)
            moved = points + found.flow.displacement_at(*points.T)
            predicted = resize_points(moved, store.size, pair.target.size)
            scores[index] = pair_pck(pair, predicted, source.name)
        result[f"{source.name}/{source.split}"] = float(sum_over_processes(scores).mean())
    result["mean"] = float(np.mean(list(result.values())))
    totals = sum_over_processes(torch.tensor([float(sum(layers)), float(len(layers))], device=device))
    if totals[1]:
        result["layers"] = float(totals[0] / totals[1])
    return result


def pair_pck(pair: Pair, predicted: np.ndarray, dataset: str) -> float:
    """Of one pair whose points were predicted (K, 2) in pixels of the target, in percent.

    By the paper's protocol; a pair without the box that it wants, or of no benchmark, by the image's sides.
    """
    known = dataset in PAPER and not (PAPER[dataset] == "box" and pair.target.box is None)
    protocol = protocol_for(dataset) if known else IN_SQUARE
    return float(photo_pck(pair.target, predicted, protocol, [ALPHA])[0])
