"""``dhpf web``."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Optional

import typer

from ..web.addresses import is_loopback
from ..web.server import DEFAULT_HOST, DEFAULT_PORT, serve
from .match import Backbone, Device, Size, parse_size


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
    open: Annotated[bool, typer.Option("--open", help="Also open it in the browser.")] = False,
    size: Size = None,
    device: Device = "cpu",
    backbone: Backbone = None,
) -> None:
    """Try it in the browser: click a point on one photo, see it on the other.

    Examples:

      dhpf web --open

      dhpf web --model head.safetensors --port 8000
    """
    sides = parse_size(size) if size else None

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
            ready=ready,
        )
    typer.echo("stopped")
