"""A score as one HTML file that needs nothing else: figures, charts, breakdowns, best and worst pairs."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from pathlib import Path

import numpy as np

from ..errors import InputError
from .breakdown import CONFIDENCE, Summary
from .gallery import Gallery, draw_gallery
from .metrics import pair_pck
from .predictions import Predictions
from .score import Score
from .svg import Bar, bar_chart, line_chart, tag
from .tables import Section, cells, columns, remarks, sections, title

GALLERY_ALPHA = 0.1  # what the literature quotes first
CURVE = np.linspace(0, 0.3, 61)


def to_html(predictions: Predictions, score: Score, root: Path | None = None) -> str:
    """Write the report.

    Parameters
    ----------
    predictions, score
        What was scored, and its figures.
    root
        The data set's folder, for the photos of the gallery.
    """
    if root is not None and not root.is_dir():
        raise InputError(f"{root}: no such folder; wanted: the data set's folder, for the photos")
    alphas = [float(name) for name in score.metrics] if score.kind == "keypoints" else []
    alpha = GALLERY_ALPHA if GALLERY_ALPHA in alphas or not alphas else alphas[len(alphas) // 2]
    chosen = alphas.index(alpha) if alphas else len(score.metrics) - 1
    head, *breakdowns = sections(score)
    parts = [
        _header(score),
        tag("div", *(_tiles(score, summary, name) for name, summary in head.rows), class_="tiles"),
        tag("ul", *(tag("li", escape(remark)) for remark in remarks(score))),
    ]
    charts = [_curve(predictions, score, alphas)] if alphas else []
    charts += [_breakdown(score, section, chosen) for section in breakdowns]
    parts.append(tag("div", *charts, class_="charts"))
    parts.append(_gallery(score, draw_gallery(predictions, score, alpha, root), alpha, root))
    style = files("dhpf.evaluate").joinpath("report.css").read_text(encoding="utf-8")
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            tag("title", escape(title(score))),
            tag("style", style),
            "</head>\n<body>\n<main>",
            *parts,
            "</main>\n</body>\n</html>\n",
        ]
    )


def _header(score: Score) -> str:
    facts = {
        "data set": f"{score.dataset}, {score.split}",
        "model": score.model,
        "commit": score.commit or "not stated",
        "protocol": score.protocol.name,
    }
    entries = (tag("div", tag("dt", name), tag("dd", escape(value))) for name, value in facts.items())
    return tag(
        "header",
        tag("h1", escape(title(score))),
        tag("dl", *entries),
        tag("p", tag("code", escape(score.fingerprint)), class_="fingerprint"),
    )


def _tiles(score: Score, summary: Summary, name: str) -> str:
    intervals = summary.intervals or (None,) * len(summary.values)
    tiles = []
    for metric, value, interval in zip(columns(score), summary.values, intervals, strict=True):
        spread = f"{interval[0]:.1f} to {interval[1]:.1f}" if interval else ""
        tiles.append(
            tag(
                "div",
                tag("span", escape(metric), class_="metric"),
                tag("strong", f"{value:.1f}"),
                tag("span", spread, class_="spread"),
                class_="tile",
            )
        )
    counts = f"{summary.pairs} pairs, {summary.points} points; below each figure its {CONFIDENCE} % interval"
    return tag("section", tag("h2", escape(name)), tag("div", *tiles, class_="row"), tag("p", counts))


def _curve(predictions: Predictions, score: Score, alphas: list[float]) -> str:
    by_pair = pair_pck(predictions, score.protocol, CURVE.tolist())  # (P, A)
    counts = np.diff(predictions.point_offsets)
    weights = counts if score.protocol.average == "point" else np.ones(len(counts))
    values = weights @ by_pair / weights.sum()
    marks = [mark for mark in zip(alphas, score.overall.values, strict=True) if mark[0] <= CURVE[-1]]
    chart = line_chart(CURVE.tolist(), values.tolist(), marks, "PCK by alpha", "alpha")
    return tag("section", tag("h2", "PCK by alpha"), chart, _caption(score))


def _breakdown(score: Score, section: Section, chosen: int) -> str:
    bars = [
        Bar(name, summary.values[chosen], summary.intervals[chosen] if summary.intervals else None)
        for name, summary in section.rows
    ]
    metric = columns(score)[chosen]
    heads = tag("tr", *(tag("th", escape(name)) for name in ("", "pairs", "points", *columns(score))))
    rows = (
        tag("tr", tag("th", escape(name)), *(tag("td", cell) for cell in cells(summary)))
        for name, summary in section.rows
    )
    table = tag("details", tag("summary", "All figures"), tag("table", heads, *rows))
    heading = f"{section.title}: {metric}"
    return tag("section", tag("h2", escape(heading)), bar_chart(bars, heading), table, _caption(score))


def _gallery(score: Score, gallery: Gallery, alpha: float, root: Path | None) -> str:
    if score.kind == "keypoints":
        order = "by the mean error relative to the threshold length"
        legend = (
            f"Rings: truths, with the distance that alpha = {alpha:g} allows. "
            "Dots: predictions, blue if right and red if wrong."
        )
    else:
        order = "by IoU"
        legend = "White outline: the true mask. Blue: the transferred one."
    notes = [f"Ranked {order}. {legend}"]
    if root is None:
        notes.append("Points only: give the data set's folder (--root) to see the photos.")
    elif gallery.missing:
        notes.append(f"{gallery.missing} photos were not found or not readable under {root}.")
    parts = [tag("p", escape(" ".join(notes)))]
    for heading, pictures in (("Best pairs", gallery.best), ("Worst pairs", gallery.worst)):
        if pictures:
            parts += [tag("h2", heading), tag("div", *pictures, class_="gallery")]
    return tag("section", *parts)


def _caption(score: Score) -> str:
    return tag("p", tag("code", escape(score.fingerprint)), class_="fingerprint")
