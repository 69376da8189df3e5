"""``dhpf compare``: two predictions files of the same pairs -> their difference. Needs no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..evaluate.protocol import ALPHAS, DEFAULT_PRESET, protocol_for
from ..files import check_outputs
from .score import Alpha, Changes, Json, ProtocolName, publish


def compare(
    a: Annotated[Path, typer.Argument(metavar="A.npz", help="Predictions, as 'dhpf predict' writes them.")],
    b: Annotated[Path, typer.Argument(metavar="B.npz", help="Those of another model, on the same pairs.")],
    alpha: Alpha = list(ALPHAS),  # noqa: B006  # typer copies it
    protocol: ProtocolName = DEFAULT_PRESET,
    change: Changes = [],  # noqa: B006
    json: Json = None,
) -> None:
    """Compare two models on the same pairs: differences, their 95 % intervals, and p-values.

    dhpf compare strong.npz weak.npz
    """
    from ..evaluate import compare as comparison
    from ..evaluate.predictions import Predictions
    from ..evaluate.tables import to_json

    check_outputs((json,), (a, b))
    first, second = Predictions.load(a), Predictions.load(b)
    found = comparison.compare(first, second, protocol_for(first.dataset, protocol, change), alpha)
    outputs = [(json, lambda: to_json(comparison.to_dict(found)))]
    publish(comparison.tables(found), comparison.remarks(found), outputs)
