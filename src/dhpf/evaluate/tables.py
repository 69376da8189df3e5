"""A score as tables: on the terminal, as JSON, CSV and Markdown. Every one carries the fingerprint."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .breakdown import CONFIDENCE, Summary
from .score import Score

if TYPE_CHECKING:
    from rich.console import Console

DIGITS = 4  # decimals of a percentage in JSON and CSV
MOST_REASONS = 5  # shown one by one

TITLES = {
    "category": "By category",
    "points": "By number of keypoints",
    "viewpoint_variation": "By difference of viewpoint",
    "scale_variation": "By difference of scale",
    "truncation": "By truncated image",
    "occlusion": "By occluded image",
}


class Section(NamedTuple):
    """One table: a title and a row for each group."""

    title: str
    rows: tuple[tuple[str, Summary], ...]


def title(score: Score) -> str:
    """Who was scored on what."""
    return f"{score.model} on {score.dataset}, {score.split}"


def columns(score: Score) -> tuple[str, ...]:
    """Headings of the metrics."""
    return tuple(f"PCK@{name}" for name in score.metrics) if score.kind == "keypoints" else score.metrics


def sections(score: Score) -> list[Section]:
    """The standard figures with the leak-free ones beside them, then the breakdowns."""
    head = [("all pairs", score.overall)]
    if score.leak_free is not None and score.training_images:  # else it is the line above once more
        head.append(("leak-free pairs", score.leak_free))
    breakdowns = [
        Section(TITLES.get(name, f"By {name}"), tuple(found.items()))
        for name, found in score.breakdowns.items()
    ]
    return [Section(title(score), tuple(head)), *breakdowns]


def remarks(score: Score) -> list[str]:
    """What must be read with the figures: skipped pairs, leakage, and whatever else was counted."""
    means = zip(columns(score), score.category_mean, strict=True)
    lines = [f"Mean over categories: {', '.join(f'{name} {value:.1f}' for name, value in means)}."]
    reasons = Counter(reason for _, reason in score.skipped)
    shown = [f"{count} x {reason}" for reason, count in reasons.most_common(MOST_REASONS)]
    if len(reasons) > MOST_REASONS:
        shown.append(f"{len(reasons) - MOST_REASONS} other reasons")
    lines.append(
        f"Skipped pairs: {len(score.skipped)}{' (' if shown else ''}{'; '.join(shown)}{')' * bool(shown)}."
    )
    if score.training_images is None:
        lines.append("Leak-free pairs: unknown; the predictions name no training images (see --train-list).")
    else:
        pairs = score.leak_free.pairs if score.leak_free else 0
        lines.append(
            f"Leak-free pairs: {pairs} of {score.overall.pairs} share no image with the "
            f"{score.training_images} training images."
        )
    return lines + [f"{note}." for note in score.notes]


def to_dict(score: Score) -> dict[str, Any]:
    """The score as plain data; percentages by alpha (``pck``) or by name (``masks``)."""

    def of(summary: Summary) -> dict[str, Any]:
        return {
            "pairs": summary.pairs,
            "points": summary.points,
            metric: by_name(summary.values),
            "interval": None
            if summary.intervals is None
            else {
                name: [round(low, DIGITS), round(high, DIGITS)]
                for name, (low, high) in zip(score.metrics, summary.intervals, strict=True)
            },
        }

    def by_name(values: Sequence[float]) -> dict[str, float]:
        return {name: round(value, DIGITS) for name, value in zip(score.metrics, values, strict=True)}

    metric = "pck" if score.kind == "keypoints" else "masks"
    groups = {
        name: {group: of(summary) for group, summary in found.items()}
        for name, found in score.breakdowns.items()
    }
    leak_free = None
    if score.training_images is not None:
        found = {"pairs": 0} if score.leak_free is None else of(score.leak_free)
        leak_free = {"training_images": score.training_images, **found}
    return {
        "dataset": score.dataset,
        "split": score.split,
        "model": score.model,
        "commit": score.commit,
        "protocol": {
            "name": score.protocol.name,
            **score.protocol.described(score.kind),
            "fingerprint": score.fingerprint,
        },
        **of(score.overall),
        "confidence": CONFIDENCE,
        "category_mean": by_name(score.category_mean),
        "per_category": groups.pop("category"),
        "breakdowns": groups,
        "leak_free": leak_free,
        "skipped": [{"pair": pair, "reason": reason} for pair, reason in score.skipped],
        "notes": list(score.notes),
    }


def to_json(score: Score) -> str:
    """``to_dict`` as text."""
    return json.dumps(to_dict(score), indent=2, ensure_ascii=False) + "\n"


def to_csv(score: Score) -> str:
    """One row a group, each complete in itself, so that files can be joined."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    metrics = [name for column in columns(score) for name in (column, f"{column} low", f"{column} high")]
    writer.writerow(
        ["dataset", "split", "model", "protocol", "breakdown", "group", "pairs", "points", *metrics]
    )
    groups = [("all", "all", score.overall)]
    if score.leak_free is not None:
        groups.append(("all", "leak-free", score.leak_free))
    groups += [
        (name, group, summary) for name, found in score.breakdowns.items() for group, summary in found.items()
    ]
    for name, group, summary in groups:
        intervals = summary.intervals or ((float("nan"),) * 2,) * len(summary.values)
        figures = [
            "" if figure != figure else round(figure, DIGITS)
            for value, interval in zip(summary.values, intervals, strict=True)
            for figure in (value, *interval)
        ]
        about = [score.dataset, score.split, score.model, score.fingerprint]
        writer.writerow([*about, name, group, summary.pairs, summary.points, *figures])
    return text.getvalue()


def to_markdown(score: Score) -> str:
    """A table for each section, its fingerprint below."""
    parts = []
    for level, (heading, rows) in zip(["#", *["##"] * len(score.breakdowns)], sections(score), strict=True):
        head = ["", "pairs", "points", *columns(score)]
        lines = [f"{level} {heading}", "", _line(head), _line(["---", *["---:"] * (len(head) - 1)])]
        lines += [_line([name, *cells(summary)]) for name, summary in rows]
        lines += ["", f"`{score.fingerprint}`"]
        parts.append("\n".join(lines))
    return "\n\n".join([*parts, "\n".join(f"- {remark}" for remark in remarks(score))]) + "\n"


def print_score(score: Score, console: Console) -> None:
    """Tables for the terminal; intervals in whole percents, so that three alphas fit 80 columns."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    for heading, rows in sections(score):
        table = Table(
            title=Text(heading, style="bold"),
            title_justify="left",
            box=SIMPLE_HEAD,
            show_edge=False,
            padding=(0, 1, 0, 0),
        )
        table.add_column("")
        for name in ("pairs", "points", *columns(score)):
            table.add_column(name, justify="right")
        for name, summary in rows:
            table.add_row(Text(name), *map(Text, cells(summary, digits=0)))
        console.print(table)
        console.print(Text(score.fingerprint, style="dim"), soft_wrap=True)
        console.print()
    for remark in remarks(score):
        console.print(Text(remark), soft_wrap=True)


def cells(summary: Summary, digits: int = 1) -> list[str]:
    """Pairs, points, then each figure with its interval (with that many decimals)."""
    figures = [f"{value:.1f}" for value in summary.values]
    if summary.intervals is not None:
        figures = [
            f"{figure} [{low:.{digits}f}, {high:.{digits}f}]"
            for figure, (low, high) in zip(figures, summary.intervals, strict=True)
        ]
    return [str(summary.pairs), str(summary.points), *figures]


def _line(texts: Sequence[str]) -> str:
    escaped = [text.replace("|", "\\|") for text in texts]
    return f"| {' | '.join(escaped)} |"
