"""``dhpf web``."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from ..errors import InputError
from ..web.addresses import is_loopback
from ..web.server import DEFAULT_HOST, DEFAULT_PORT, serve
from .match import Backbone, Device, PhotoPoints, Size, parse_size
from .models import load_model

if TYPE_CHECKING:
    from ..web.review import Review


def web(
    host: Annotated[str, typer.Option(help="Where to listen; 0.0.0.0 lets others in.")] = DEFAULT_HOST,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = DEFAULT_PORT,
    model: Annotated[
        Optional[list[str]],
        typer.Option(
            metavar="NAME|FILE",
            help="A name from 'dhpf models', or a head file, to offer beside the bundled models; repeatable.",
        ),
    ] = None,
    allow_host: Annotated[
        Optional[list[str]],
        typer.Option(metavar="NAME", help="Another name by which the page is called; repeatable."),
    ] = None,
    annotations: Annotated[
        Optional[Path],
        typer.Option(
            metavar="FILE",
            help="Review these annotations, such as 'dhpf annotate' writes. The file stays as it is: "
            "annotations.json is reviewed in annotations.reviewed.json, and goes on there the next time.",
        ),
    ] = None,
    images: Annotated[
        Optional[Path], typer.Option(metavar="DIR", help="The folder of the annotations' photos.")
    ] = None,
    references: Annotated[
        Optional[Path],
        typer.Option(
            metavar="FILE",
            help="What 'dhpf annotate' was given as REFERENCES, to look at and to predict from.",
        ),
    ] = None,
    points: PhotoPoints = None,
    inside_boxes: Annotated[
        bool,
        typer.Option("--inside-boxes", help="The annotations' boxes are given: keep them, predict in them."),
    ] = False,
    open: Annotated[bool, typer.Option("--open", help="Also open it in the browser.")] = False,
    size: Size = None,
    device: Device = "cpu",
    backbone: Backbone = None,
) -> None:
    """Try it in the browser: click a point on one photo, see it on the other.

    Examples:

      dhpf web --open

      dhpf web --model head.safetensors --port 8000

      dhpf web --annotations annotations.json --images photos/ --references cats.json
    """
    sides = parse_size(size) if size else None
    if (annotations is None) != (images is None):
        raise InputError("a review needs both --annotations FILE and --images DIR")
    if annotations is None and (references is not None or points is not None or inside_boxes):
        raise InputError(
            "--references, --points and --inside-boxes are for a review; give --annotations FILE"
        )
    if references is None and points is not None:
        raise InputError("--points are those of a photo; give the photo as --references")

    review = None
    if annotations is not None and images is not None:
        review = partial(_open_review, annotations, images, references, points, inside_boxes)

    def ready(address: str) -> None:
        typer.echo(f"open {address} (Ctrl+C stops it)")
        if not is_loopback(host):
            typer.echo(
                f"dhpf: warning: listening on {host}: everyone who can reach this machine can use the page; "
                "there is no password and no encryption",
                err=True,
            )
        if open:
            import webbrowser

            webbrowser.open(address)

    with suppress(KeyboardInterrupt):
        serve(
            host,
            port,
            models=model or (),
            size=sides,
            device=device,
            backbone=backbone,
            allowed=allow_host or (),
            review=review,
            loader=load_model,
            ready=ready,
        )
    typer.echo("stopped")


def _open_review(
    annotations: Path, images: Path, references: Path | None, points: str | None, inside_boxes: bool
) -> Review:
    from ..annotate.formats import read_annotations
    from ..annotate.photos import read_references, references_of
    from ..files import check_outputs
    from ..web.review import Review
    from ..web.review_files import review_files

    if references is None:
        known = []
    elif points is not None:
        known = read_references(references, points=points)[1]
    else:
        known = references_of(read_annotations(references), [references.parent, images], str(references))
    if references is not None:
        check_outputs(review_files(annotations), [references])
    return Review(annotations, images, known, inside_boxes)
