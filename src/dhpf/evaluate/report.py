"""A score as one HTML file that needs nothing else: figures, breakdowns, best and worst pairs."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from pathlib import Path

from ..errors import InputError
from .gallery import draw_pair, rank
from .render import page, tag, to_html
from .score import ALPHA, Score
from .tables import columns, remarks, tables, title

COUNT = 6  # of the best pairs, and of the worst
LEGENDS = {
    "keypoints": (
        "Ranked by the mean error relative to the threshold length. A line joins each prediction with the "
        f"truth: blue if it is right at alpha = {ALPHA:g}, red if it is wrong."
    ),
    "polygons": "Ranked by IoU. White outline: the true mask. Blue: the transferred one.",
}


def report(score: Score, root: Path | None = None) -> str:
    """Write the page; ``root`` is the data set's folder, for the images of the gallery."""
    if root is not None and not root.is_dir():
        raise InputError(f"{root}: no such folder; wanted: the data set's folder, for the images")
    found = score.predictions
    facts = {"commit": found.commit, "protocol": score.protocol.name, "configuration": found.config}
    entries = (
        tag("div", tag("dt", name), tag("dd", escape(value or "not stated"))) for name, value in facts.items()
    )
    head, *breakdowns = map(to_html, tables(score))
    main = tag(
        "main",
        tag("h1", escape(title(score))),
        tag("dl", *entries),
        head,
        tag("ul", *(tag("li", escape(remark)) for remark in remarks(score))),
        tag("div", *breakdowns, class_="charts"),
        _gallery(score, root),
    )
    style = files("dhpf.evaluate").joinpath("report.css").read_text(encoding="utf-8")
    return page(title(score), style, main)


def _gallery(score: Score, root: Path | None) -> str:
    """Some of the best and of the worst pairs."""
    order = rank(score)
    chosen = {
        "Best pairs": order[: min(COUNT, (len(order) + 1) // 2)],
        "Worst pairs": order[::-1][: min(COUNT, len(order) // 2)],
    }
    parts, missing = [], 0
    for heading, indices in chosen.items():
        figures = []
        for index in indices:
            *pictures, absent = draw_pair(score, index, root)
            missing += absent
            values = zip(columns(score), score.pair_values[index], strict=True)
            names = [score.predictions.pair_ids[index], score.predictions.categories[index]]
            caption = " · ".join([*names, *(f"{name} {value:.0f}" for name, value in values)])
            images = (f'<img alt="" src="{address}">' for address in pictures)
            figures.append(tag("figure", *images, tag("figcaption", escape(caption))))
        if figures:
            parts += [tag("h2", heading), tag("div", *figures, class_="gallery")]
    legend = LEGENDS[score.predictions.kind]
    if root is None:
        legend += " Points only: give the data set's folder (--root) to see the images."
    elif missing:
        legend += f" {missing} images were not found or not readable under {root}."
    return tag("section", tag("p", escape(legend)), *parts)
