"""A score as tables, remarks, JSON and CSV. Every one carries the fingerprint."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ..files import csv_text
from .breakdown import CONFIDENCE, Summary
from .render import Figure, Row, Table
from .score import ALPHA, Score

DIGITS = 4  # decimals of a percentage in JSON and CSV
MOST_REASONS = 5  # shown one by one


def title(score: Score) -> str:
    """Who was scored on what."""
    return f"{score.predictions.model} on {score.predictions.dataset}, {score.predictions.split}"


def headings(metrics: Sequence[str], kind: str) -> tuple[str, ...]:
    """Of the columns of the metrics."""
    return tuple(f"PCK@{metric}" if kind == "keypoints" else metric for metric in metrics)


def columns(score: Score) -> tuple[str, ...]:
    """Headings of a score's metrics."""
    return headings(score.metrics, score.predictions.kind)


def figures(summary: Summary, signed: bool = False) -> list[Figure]:
    """Each value with its interval."""
    intervals = summary.intervals or (None,) * len(summary.values)
    return [Figure(*each, signed) for each in zip(summary.values, intervals, strict=True)]


def tables(score: Score) -> list[Table]:
    """The standard figures with the leak-free ones beside them, the breakdowns, and the calibration."""
    head = {"all pairs": score.overall}
    if score.leak_free is not None and score.training_images:  # else it is the line above once more
        head["leak-free pairs"] = score.leak_free
    sections: dict[str, Mapping[str, Summary]] = {title(score): head}
    for name, groups in score.breakdowns.items():
        sections[f"By {'number of keypoints' if name == 'points' else name.replace('_', ' ')}"] = groups
    found = []
    for heading, rows in sections.items():
        cells: list[Row] = [(name, each.pairs, each.points, *figures(each)) for name, each in rows.items()]
        found.append(Table(heading, ("pairs", "points", *columns(score)), cells, score.fingerprint))
    if score.calibration is not None:
        names = ("points", "confidence", f"right at {ALPHA:g}")
        bins: list[Row] = [
            (f"{each.low:g} to {each.high:g}", each.points, Figure(each.confidence), Figure(each.right))
            for each in score.calibration.bins
        ]
        found.append(Table("Calibration, by confidence", names, bins, score.fingerprint))
    return found


def remarks(score: Score) -> list[str]:
    """What must be read with the figures: skipped pairs, leakage, and whatever else was counted."""
    means = zip(columns(score), score.category_mean, strict=True)
    skipped = score.predictions.skipped
    reasons = Counter(reason for _, reason in skipped).most_common()
    shown = [f"{count} x {reason}" for reason, count in reasons[:MOST_REASONS]]
    if len(reasons) > MOST_REASONS:
        shown.append(f"{len(reasons) - MOST_REASONS} other reasons")
    lines = [
        f"Mean over categories: {', '.join(f'{name} {value:.1f}' for name, value in means)}.",
        f"Skipped pairs: {len(skipped)}" + (f" ({'; '.join(shown)})." if shown else "."),
    ]
    if score.training_images is None:
        lines.append("Leak-free pairs: unknown; the predictions name no training images (see --train-list).")
    else:
        pairs = f"{score.leak_free.pairs if score.leak_free else 0} of {score.overall.pairs}"
        images = f"the {score.training_images} training images"
        lines.append(f"Leak-free pairs: {pairs} share no image with {images}.")
    if score.calibration is not None:
        lines.append(f"Expected calibration error: {score.calibration.error:.1f} percent.")
    return lines + [f"{note}." for note in score.notes]


def to_dict(score: Score) -> dict[str, Any]:
    """The score as plain data; percentages by alpha (``pck``) or by name (``masks``)."""
    predictions = score.predictions

    def by_name(values: Any) -> dict[str, Any] | None:
        return None if values is None else dict(zip(score.metrics, values, strict=True))

    def of(summary: Summary) -> dict[str, Any]:
        metric = "pck" if predictions.kind == "keypoints" else "masks"
        figures = {metric: by_name(summary.values), "interval": by_name(summary.intervals)}
        return {"pairs": summary.pairs, "points": summary.points, **figures}

    groups = {
        name: {group: of(summary) for group, summary in found.items()}
        for name, found in score.breakdowns.items()
    }
    leak_free = calibration = None
    if score.training_images is not None:
        found = {"pairs": 0} if score.leak_free is None else of(score.leak_free)
        leak_free = {"training_images": score.training_images, **found}
    if score.calibration is not None:
        bins = [each._asdict() for each in score.calibration.bins]
        calibration = {"alpha": ALPHA, "expected_error": score.calibration.error, "bins": bins}
    protocol = {"name": score.protocol.name, **score.protocol.described(predictions.kind)}
    content = {
        "dataset": predictions.dataset,
        "split": predictions.split,
        "model": predictions.model,
        "commit": predictions.commit,
        "config": None,
        "protocol": {**protocol, "fingerprint": score.fingerprint},
        "split_pairs": predictions.split_pairs,
        **of(score.overall),
        "confidence": CONFIDENCE,
        "category_mean": by_name(score.category_mean),
        "per_category": groups.pop("category"),
        "breakdowns": groups,
        "leak_free": leak_free,
        "calibration": calibration,
        "skipped": [{"pair": pair, "reason": reason} for pair, reason in predictions.skipped],
        "notes": list(score.notes),
    }
    config = None if predictions.config is None else json.loads(predictions.config)
    return {**rounded(content), "config": config}


def to_json(content: dict[str, Any]) -> str:
    """Plain data as text; NaN, which is no JSON, is an error."""
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def to_csv(score: Score) -> str:
    """One row a group, each complete in itself, so that files can be joined."""
    metrics = [f"{column}{end}" for column in columns(score) for end in ("", " low", " high")]
    about = {
        "dataset": score.predictions.dataset,
        "split": score.predictions.split,
        "model": score.predictions.model,
        "protocol": score.fingerprint,
    }
    rows: list[list[Any]] = [[*about, "breakdown", "group", "pairs", "points", *metrics]]
    all_pairs = {"all": score.overall}
    if score.leak_free is not None:
        all_pairs["leak-free"] = score.leak_free
    for breakdown, groups in {"all": all_pairs, **score.breakdowns}.items():
        for group, each in groups.items():
            cells = [
                end for figure in figures(each) for end in (figure.value, *(figure.interval or ("", "")))
            ]
            rows.append([*about.values(), breakdown, group, each.pairs, each.points, *rounded(cells)])
    return csv_text(rows)


def rounded(value: Any) -> Any:
    """Plain data with all percentages rounded."""
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(each) for each in value]
    return round(value, DIGITS) if isinstance(value, float) else value
