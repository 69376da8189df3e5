"""``dhpf convert``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def convert(
    annotations: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="COCO, CVAT, Label Studio, DeepLabCut, plain JSON or CSV."),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The file to write.")],
    format: Annotated[
        str, typer.Option(help="Of the output: coco, cvat, label-studio, deeplabcut, json or csv.")
    ] = "coco",
) -> None:
    """Write an annotation file in another format, such as what was reviewed in the browser.

    Example:

      dhpf convert annotations.reviewed.json --out annotations.xml --format cvat
    """
    from ..annotate.formats import check_format, encode, read_annotations
    from ..files import STDOUT, check_outputs, write_atomically

    check_format(format)
    check_outputs([out], [annotations])
    read = read_annotations(annotations)
    content, lost = encode(read, format)
    write_atomically(out, content)
    for line in (*read.notes, *lost):
        typer.echo(f"dhpf: note: {line}", err=True)
    if out != STDOUT:
        typer.echo(f"{len(read)} photos: {out}")
