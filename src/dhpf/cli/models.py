"""``dhpf models`` and ``dhpf import-checkpoint``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer


def models() -> None:
    """List the models: where their weights come from, and their measured figures."""
    from ..model.models import DEFAULT_MODEL, MODELS
    from ..model.weights import BACKBONES

    for entry in MODELS.values():
        weights = BACKBONES[entry.backbone]
        where = "bundled" if weights.bundled else f"downloaded at first use from {weights.source}"
        typer.echo(f"{entry.name} (default)" if entry.name == DEFAULT_MODEL else entry.name)
        typer.echo(f"  what      {entry.description}")
        typer.echo(f"  layers    {', '.join(map(str, entry.layers)) or 'chosen for each pair'}")
        typer.echo(f"  backbone  {weights.name}: {weights.origin}; {weights.licence}; {where}")
        if entry.training is not None:
            how = entry.training
            typer.echo(
                f"  trained   {how.data}; recipes/{how.recipe}, commit {how.commit}, {how.hours:.1f} hours"
            )
        for what, value in entry.figures.items():
            typer.echo(f"  measured  {what}: {value}")


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
