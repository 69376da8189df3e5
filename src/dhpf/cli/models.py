"""``dhpf models`` and ``dhpf import-checkpoint``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer


def models() -> None:
    """List the models: where their weights come from, and their measured figures."""
    from rich.console import Console
    from rich.table import Table

    from ..model.weights import BACKBONES, DEFAULT_MODEL, MODELS

    table = Table(title="Models", title_justify="left")
    for heading in ("name", "what it is", "layers", "backbone weights", "measured here"):
        table.add_column(heading)
    for entry in MODELS.values():
        weights = BACKBONES[entry.backbone]
        where = "bundled" if weights.bundled else "downloaded at first use"
        figures = "\n".join(f"{what}: {value}" for what, value in entry.figures.items()) or "-"
        name = f"{entry.name}\n(default)" if entry.name == DEFAULT_MODEL else entry.name
        layers = ", ".join(map(str, entry.layers)) or "chosen per pair"
        table.add_row(
            name, entry.description, layers, f"{weights.origin}; {weights.licence}; {where}", figures
        )
    Console().print(table)


def import_checkpoint(
    file: Annotated[Path, typer.Argument(metavar="FILE.pt", help="A checkpoint of the published DHPF code.")],
    out: Annotated[Path, typer.Argument(metavar="OUT.safetensors", help="The head file to write.")],
    backbone: Annotated[
        Optional[str],
        typer.Option(help="The backbone it was trained on; by default torchvision's of the right depth."),
    ] = None,
) -> None:
    """Convert a published checkpoint, safely read, to a head file for --model.

    Example:  dhpf import-checkpoint pas_res101_str.pt dhpf-resnet101.safetensors
    """
    from ..model.checkpoint import import_published

    used = import_published(file, out, backbone)
    typer.echo(f"wrote {out}, a head for {used}; use it with: dhpf match A B --model {out}")
