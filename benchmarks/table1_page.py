"""Table 1 as Markdown, CSV and HTML: the paper's figures, and those of the files of results beside them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.record import RESULTS as FOLDER
from benchmarks.record import ROOT, write_between
from dhpf.evaluate.render import page, tag
from dhpf.zoo import Card, models

PAGE = ROOT / "docs" / "table1.md"
EXPERIMENT = ROOT / "docs" / "paper_experiment.md"  # the rows of the paper's own method, by themselves
ALPHAS = ("0.05", "0.1", "0.15")


class Column(NamedTuple):
    """Where a figure is found: in which file of results, under which keys."""

    heading: str
    file: str
    keys: tuple[str, ...]
    digits: int = 1
    factor: float = 1.0


COLUMNS = (
    *(Column(f"PF-PASCAL, image, {a}", "pf-pascal_{}", ("pck", a)) for a in ALPHAS),
    Column("PF-PASCAL, box, 0.1", "pf-pascal_{}_box", ("pck", "0.1")),
    Column("PF-PASCAL, image, 0.1, leak-free", "pf-pascal_{}", ("leak_free", "pck", "0.1")),
    *(Column(f"PF-WILLOW, {a}", "pf-willow_{}", ("pck", a)) for a in ALPHAS),
    *(Column(f"PF-WILLOW, padded, {a}", "pf-willow_{}_legacy", ("pck", a)) for a in ALPHAS),
    Column("Caltech-101, LT-ACC", "caltech-101_{}", ("masks", "LT-ACC")),
    Column("Caltech-101, IoU", "caltech-101_{}", ("masks", "IoU")),
    Column("ms for a pair", "model_times", ("{}", "new_photos"), 0, 1000.0),
)


class System(NamedTuple):
    """One of Table 1."""

    title: str
    method: str  # the name of its class here
    signal: str  # what it learns from


SYSTEMS = (
    System("nearest neighbour", "nearest", "none"),
    System("PF (HOG, LOM)", "proposal_flow", "none"),
    System("CNNGeo", "cnngeo", "synthetic pairs"),
    System("A2Net", "a2net", "synthetic pairs"),
    System("SF-Net", "sfnet", "boxes or masks"),
    System("WeakAlign", "weakalign", "image pairs"),
    System("RTNs", "rtns", "image pairs"),
    System("NC-Net", "ncnet", "image pairs"),
    System("DCC-Net", "dccnet", "image pairs"),
    System("DHPF, weak", "dhpf", "image pairs"),
    System("SCNet", "scnet", "keypoints"),
    System("HPF", "hpf", "keypoints"),
    System("DHPF", "dhpf", "keypoints"),
)
BACKBONES = {
    "resnet50-msra": "ResNet-50",
    "dinov2-vits14": "DINOv2 ViT-S/14",
    "pixels": "none",
}

# The paper's table: system, backbone; PF-PASCAL, image; box; PF-WILLOW; LT-ACC, IoU; milliseconds on a GPU.
LITERATURE = """
PF (HOG, LOM)| HOG        | 31.4 62.5 79.5 | 45.0 | 28.4 56.8 68.2 | 78 50 | >1000
CNNGeo       | ResNet-101 | 41.0 69.5 80.4 | 68.0 | 36.9 69.2 77.8 | 79 56 | 40
A2Net        | ResNet-101 | 42.8 70.8 83.3 | 67.0 | 36.3 68.8 84.4 | 80 57 | 53
SF-Net       | ResNet-101 | 53.6 81.9 90.6 | 78.7 | 46.3 74.0 84.2 | 88 67 | 51
WeakAlign    | ResNet-101 | 49.0 74.8 84.0 | 72.0 | 37.0 70.2 79.9 | 85 63 | 41
RTNs         | ResNet-101 | 55.2 75.9 85.2 | -    | 41.3 71.9 86.2 | - -   | 376
NC-Net       | ResNet-101 | 54.3 78.9 86.0 | 70.0 | 33.8 67.0 83.7 | 85 60 | 261
DCC-Net      | ResNet-101 | 55.6 82.3 90.5 | -    | 43.6 73.8 86.5 | - -   | >261
DHPF, weak   | ResNet-50, mu = 0.4 | 54.8 79.0 89.8 | 74.5 | 48.7 75.7 87.3 | 85 59 | 31
DHPF, weak   | ResNet-50  | 54.7 79.0 89.7 | 74.5 | 51.8 78.7 89.6 | 85 59 | 33
DHPF, weak   | ResNet-101 | 56.1 82.1 91.1 | 78.5 | 50.2 80.2 91.1 | 86 61 | 56
SCNet        | VGG-16     | 36.2 72.2 82.0 | 48.2 | 38.6 70.4 85.3 | 79 51 | >1000
HPF          | ResNet-50  | 60.5 83.4 92.1 | 76.5 | 46.5 72.4 84.7 | 88 64 | 34
HPF          | ResNet-101 | 60.1 84.8 92.7 | 78.5 | 45.9 74.4 85.6 | 87 63 | 63
DHPF         | ResNet-50, mu = 0.4 | 70.2 89.1 94.0 | 85.0 | 45.8 73.3 86.6 | 86 60 | 30
DHPF         | ResNet-50  | 72.6 88.9 94.3 | 85.6 | 47.9 74.8 86.7 | 86 61 | 34
DHPF         | ResNet-101 | 75.7 90.7 95.0 | 87.8 | 49.5 77.6 89.1 | 87 62 | 58
"""
REMARKS = (
    "Rows marked 'literature' are the figures of the paper's Table 1, on other machines, backbones and "
    "training pairs; all others were measured here, on the same pairs, under one protocol.",
    "PCK in percent: distances in a 240 x 240 frame, average over pairs. LT-ACC and IoU in percent.",
    "PF-WILLOW: the threshold is the extent of the keypoints; 'padded' adds a point at (-1, -1), as the "
    "published DHPF code does, and with it the paper's figures of DHPF.",
    "Leak-free: test pairs that share no image with a model's training pairs. Who trains on the official "
    "training pairs, as most of the literature, has seen 302 of the 506 test images.",
    "Time for two new images: the literature's on a GPU, ours on a CPU, all models in turns in one run.",
)
HEADINGS = ("System", "Model", "Backbone", "Learns from", *(column.heading for column in COLUMNS))


def literature(system: System) -> list[list[str]]:
    """The paper's rows of a system."""
    rows = []
    for line in LITERATURE.strip().splitlines():
        title, backbone, *groups = (part.strip() for part in line.split("|"))
        if title == system.title:
            pascal, box, willow, masks, time = (group.replace("-", "").split() or [""] for group in groups)
            nothing = [""] * 3
            both = [nothing, willow] if system.method == "dhpf" else [willow, nothing]
            figures = [
                *pascal,
                *box,
                "",
                *both[0],
                *both[1],
                *(masks if len(masks) == 2 else ["", ""]),
                *time,
            ]
            rows.append([system.title, "literature", backbone, system.signal, *figures])
    return rows


def is_of(card: Card, system: System) -> bool:
    """Whether a model is of that system."""
    weak = card.training is not None and "weak" in card.training.recipe
    return card.method == system.method and (card.method != "dhpf" or weak == system.title.endswith("weak"))


def measured(card: Card, system: System, results: Path) -> list[str] | None:
    """The row of a model; None if nothing was measured."""
    figures = []
    for column in COLUMNS:
        path = results / f"{column.file.format(card.name)}.json"
        value: Any = json.loads(path.read_text())["result"] if path.exists() else None
        for key in column.keys:
            value = value.get(key.format(card.name)) if isinstance(value, Mapping) else None
        figures.append("" if value is None else f"{column.factor * value:.{column.digits}f}")
    if not any(figures):
        return None
    backbone = BACKBONES.get(card.backbone, card.backbone)
    learned = card.training is not None or card.training_images != ()  # if only which layers are best
    signal = system.signal if learned else "none"
    return [system.title, card.name, backbone, signal, *figures]


def rows(results: Path) -> list[list[str]]:
    """All rows, in the paper's order: of each system the literature's, then those that were measured."""
    found = []
    for system in SYSTEMS:
        found += literature(system)
        own = [measured(card, system, results) for card in models().values() if is_of(card, system)]
        found += [row for row in own if row is not None]
    return found


def markdown(table: Sequence[Sequence[str]]) -> str:
    """The table; literature in italics."""
    lines = [list(HEADINGS), ["---"] * 4 + ["---:"] * len(COLUMNS)]
    for system, model, *cells in table:
        name = "*literature*" if model == "literature" else f"`{model}`"
        lines.append([system, name, *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def html(table: Sequence[Sequence[str]]) -> str:
    """A page that needs nothing else."""
    title = "Table 1: semantic correspondence, systems side by side"
    lines = [tag("tr", *(tag("th", escape(heading)) for heading in HEADINGS))]
    for row in table:
        kind = "literature" if row[1] == "literature" else "measured"
        lines.append(tag("tr", *(tag("td", escape(cell)) for cell in row), class_=kind))
    style = files("dhpf.evaluate").joinpath("report.css").read_text(encoding="utf-8")
    style += (
        "main { max-width: none; overflow-x: auto } tr.literature { opacity: 0.65; font-style: italic }\n"
    )
    remarks = tag("ul", *(tag("li", escape(remark)) for remark in REMARKS))
    return page(title, style, tag("main", tag("h1", escape(title)), tag("table", *lines), remarks))


def write_tables(results: Path = FOLDER) -> None:
    """Write all three beside the results, and the table of the documentation if the results are its own."""
    table = rows(results)
    text = markdown(table) + "\n\n" + "\n".join(f"- {remark}" for remark in REMARKS)
    content = io.StringIO()
    csv.writer(content, lineterminator="\n").writerows([HEADINGS, *table])
    results.mkdir(parents=True, exist_ok=True)
    for ending, written in (("md", text + "\n"), ("csv", content.getvalue()), ("html", html(table))):
        (results / f"table1.{ending}").write_text(written, encoding="utf-8")
    if results == FOLDER:
        write_between(PAGE, "figures", text)
        own = [row for row in table if row[0].startswith("DHPF") and row[2].startswith("ResNet-50")]
        write_between(EXPERIMENT, "figures", markdown(own))
