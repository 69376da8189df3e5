"""``dhpf models``, ``dhpf ship`` and ``dhpf import-checkpoint``; and how every command loads a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

if TYPE_CHECKING:
    from ..matcher import Matcher
    from ..zoo import Card

Out = Annotated[Path, typer.Argument(metavar="OUT.safetensors", help="The head file to write.")]


def load_model(
    model: str | None,
    sides: tuple[int, int] | None,
    device: str,
    backbone: Path | None,
    flip: str = "none",
) -> Matcher:
    """The matcher that the options of a command ask for, with a note where it takes another size."""
    from ..matcher import load
    from ..zoo import DEFAULT_MODEL

    matcher = load(DEFAULT_MODEL if model is None else model, sides, device, backbone, flip=flip)
    if sides not in (None, matcher.size):
        width, height = matcher.size
        multiple = matcher.method.backbone.multiple
        typer.echo(
            f"dhpf: note: input of {width}x{height}, as this model takes multiples of {multiple}", err=True
        )
    return matcher


def models() -> None:
    """List the models: what they are, where their weights come from, what was measured."""
    from ..zoo import DEFAULT_MODEL
    from ..zoo import models as cards

    for card in cards().values():
        typer.echo(f"{card.name} (default)" if card.name == DEFAULT_MODEL else card.name)
        for what, text in _described(card):
            typer.echo(f"  {what:<9} {text}")


def _described(card: Card) -> Iterator[tuple[str, str]]:
    from ..backbones.weights import find_backbone

    weights = find_backbone(card.backbone)
    where = "bundled" if weights.bundled else f"downloaded at first use from {weights.source}"
    yield "what", card.summary
    yield "method", card.method
    if {"gating", "layers", "layer"} & {*card.config}:
        yield "layers", _layers(card.config)
    yield "input", "{} x {} pixels".format(*card.size)
    yield "backbone", f"{weights.name}: {weights.origin}; {weights.licence}; {where}"
    if card.training is not None:
        how = card.training
        yield "trained", f"{how.data}; recipe {how.recipe}, commit {how.commit}, {how.hours:.1f} hours"
    for what, figures in card.figures.items():
        yield "measured", f"{what}: {', '.join(_figures(figures))}"


def _layers(config: Mapping[str, Any]) -> str:
    if config.get("gating", "none") != "none":
        return "chosen for each pair"
    fixed = config.get("layers", [config.get("layer", "all")])
    return f"{', '.join(map(str, fixed))}, for every pair"


def _figures(figures: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Each with its name, and with the names of what it is part of."""
    for name, value in figures.items():
        if isinstance(value, Mapping):
            yield from _figures(value, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name} {value:.4g}" if isinstance(value, float) else f"{prefix}{name} {value}"


def ship(
    head: Annotated[Path, typer.Argument(metavar="HEAD", help="A head that 'dhpf train' wrote.")],
    out: Out,
    summary: Annotated[str, typer.Option(help="What the model is, in a few words.")],
    data: Annotated[str, typer.Option(help="What it has learned from, in a few words.")],
) -> None:
    """Make a trained head ready for others: smaller, without traces of this machine, with a card beside it.

    Example:  dhpf ship runs/birds/best.safetensors birds.safetensors --summary "for birds" --data "CUB-200"
    """
    from ..zoo import ship as ship_head

    ship_head(head, out, summary, data)
    typer.echo(
        f"wrote {out} and its card {out.with_suffix('.json')}; use it with: dhpf match A B --model {out}"
    )


def import_checkpoint(
    file: Annotated[Path, typer.Argument(metavar="FILE.pt", help="A checkpoint of the published DHPF code.")],
    out: Out,
    backbone: Annotated[
        Optional[str],
        typer.Option(help="The backbone it was trained on; by default torchvision's of the right depth."),
    ] = None,
) -> None:
    """Convert a published checkpoint, safely read, to a head file for --model.

    Example:  dhpf import-checkpoint pas_res101_str.pt dhpf-resnet101.safetensors
    """
    from ..heads import import_published

    used = import_published(file, out, backbone)
    typer.echo(f"wrote {out}, a head for {used}; use it with: dhpf match A B --model {out}")
