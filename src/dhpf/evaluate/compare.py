"""Two methods on the same pairs: their difference, how sure it is, and whether chance explains it.

P pairs  M metrics
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .breakdown import CONFIDENCE, Summary, groups, summarise
from .predictions import PairPrediction, Predictions
from .protocol import ALPHAS, Protocol, protocol_for
from .render import Figure, Row, Table
from .score import pair_values
from .tables import figures, headings, rounded

Floats = NDArray[np.float64]

TOSSES = 10_000  # of the permutation test; where there are no more, all of them
AT_A_TIME = 500


@dataclass(frozen=True, eq=False)
class Comparison:
    """Figures of the methods a and b on the pairs that both have; differences are b - a, in percent."""

    a: Predictions
    b: Predictions
    protocol: Protocol
    metrics: tuple[str, ...]  # the alphas as written, or the names of the mask metrics
    figures: tuple[Summary, Summary]  # of a, of b
    difference: Summary
    p_values: tuple[float, ...]
    by_category: Mapping[str, Summary]  # the difference


def compare(
    a: Predictions, b: Predictions, protocol: Protocol | None = None, alphas: Sequence[float] = ALPHAS
) -> Comparison:
    """Compare two predictions files of one data set, split and direction."""
    for name in ("dataset", "split", "direction", "kind"):
        if getattr(a, name) != getattr(b, name):
            both = f"{getattr(a, name)!r} and {getattr(b, name)!r}"
            raise InputError(f"{name} {both} cannot be compared; wanted: predictions of the same pairs")
    ids, rows_a, rows_b = np.intersect1d(a.pair_ids, b.pair_ids, return_indices=True)
    if not len(ids):
        raise InputError("the two files have no pair in common; wanted: predictions of the same pairs")
    for one, other in zip(map(a.pair, rows_a), map(b.pair, rows_b), strict=True):
        if not _same_annotation(one, other):
            raise InputError(f"pair {one.pair_id} is annotated differently in the two files")
    protocol = protocol or protocol_for(a.dataset)
    metrics, values_a, weights = pair_values(a, protocol, alphas)
    values_a, values_b = values_a[rows_a], pair_values(b, protocol, alphas)[1][rows_b]
    weights, points = weights[rows_a], np.diff(a.point_offsets)[rows_a]

    def summary(values: Floats, members: Any = slice(None)) -> Summary:
        return summarise(values[members], weights[members], int(points[members].sum()))

    difference = values_b - values_a
    categories = {name: members[rows_a] for name, members in groups(a)["category"].items()}
    return Comparison(
        a=a,
        b=b,
        protocol=protocol,
        metrics=metrics,
        figures=(summary(values_a), summary(values_b)),
        difference=summary(difference),
        p_values=sign_flip_test(weights[:, None] * difference),
        by_category={name: summary(difference, own) for name, own in categories.items() if own.any()},
    )


def sign_flip_test(differences: Floats, tosses: int = TOSSES, seed: int = 0) -> tuple[float, ...]:
    """Two-sided p-values (M,) of paired differences (P, M).

    If neither method is better, each pair's difference might as well have the other sign. The p-value is the
    fraction of tosses of all signs with a sum as far from 0 as the true one: over all 2^P tosses for few
    pairs, else over random ones and the true one.
    """
    differences = differences[(differences != 0).any(axis=1)]  # the others have no sign
    slack = 1e-9 * np.abs(differences).sum(axis=0)  # the order of summands changes the last bits
    far = np.abs(differences.sum(axis=0)) - slack
    if 2 ** len(differences) <= tosses:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=len(differences))))
        return tuple((np.abs(signs @ differences) >= far).mean(axis=0).tolist())
    random, hits = np.random.default_rng(seed), np.ones(differences.shape[1])
    for start in range(0, tosses, AT_A_TIME):
        signs = random.choice((1.0, -1.0), (min(AT_A_TIME, tosses - start), len(differences)))
        hits += (np.abs(signs @ differences) >= far).sum(axis=0)
    return tuple((hits / (1 + tosses)).tolist())


def tables(found: Comparison) -> list[Table]:
    """The difference overall and by category."""
    names, fingerprint = headings(found.metrics, found.a.kind), found.protocol.fingerprint(found.a.kind)
    about = f"{found.b.model} (b) against {found.a.model} (a) on {found.a.dataset}, {found.a.split}"
    a, b = (map(Figure, summary.values) for summary in found.figures)
    p_values = (f"{p:.2g}" for p in found.p_values)
    rows: list[Row] = [*zip(names, a, b, figures(found.difference, signed=True), p_values, strict=True)]
    groups: list[Row] = []
    for name, each in found.by_category.items():
        groups.append((name, each.pairs, *figures(each, signed=True)))
    return [
        Table(about, ("a", "b", "b - a", "p"), rows, fingerprint),
        Table("b - a by category", ("pairs", *names), groups, fingerprint),
    ]


def remarks(found: Comparison) -> list[str]:
    """What must be read with the figures."""
    common = found.difference.pairs
    others = f"{len(found.a) - common} are only in a, {len(found.b) - common} only in b"
    return [
        f"{common} pairs are in both files; {others}.",
        f"In brackets: the {CONFIDENCE} % interval of the paired difference, by bootstrap over pairs.",
        "p: how often a difference as large would come by chance, by a paired sign-flip permutation test.",
    ]


def to_dict(found: Comparison) -> dict[str, Any]:
    """The comparison as plain data."""

    def by_metric(summary: Summary, **more: Sequence[float]) -> dict[str, Any]:
        """The difference and its interval, and more, for each metric."""
        columns = {"difference": summary.values, "interval": summary.intervals or [None] * len(found.metrics)}
        rows = zip(*columns.values(), *more.values(), strict=True)
        entries = (dict(zip((*columns, *more), row, strict=True)) for row in rows)
        return dict(zip(found.metrics, entries, strict=True))

    def about(one: Predictions) -> dict[str, Any]:
        return {"model": one.model, "commit": one.commit, "pairs": len(one)}

    a, b = (summary.values for summary in found.figures)
    categories = {name: {"pairs": each.pairs, **by_metric(each)} for name, each in found.by_category.items()}
    content = {
        "dataset": found.a.dataset,
        "split": found.a.split,
        "a": about(found.a),
        "b": about(found.b),
        "protocol": found.protocol.fingerprint(found.a.kind),
        "pairs": found.difference.pairs,
        "points": found.difference.points,
        "confidence": CONFIDENCE,
        "overall": by_metric(found.difference, a=a, b=b, p_value=found.p_values),
        "per_category": categories,
    }
    return dict(rounded(content))


def _same_annotation(one: PairPrediction, other: PairPrediction) -> bool:
    names = ("target_size", "source_points", "target_points")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)
