"""``dhpf models``, ``dhpf ship`` and ``dhpf import-checkpoint``; and how every command loads a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

if TYPE_CHECKING:
    from ..matcher import Matcher
    from ..zoo import Card

COLUMNS = {"PF-PASCAL": "pf-pascal", "PF-WILLOW": "pf-willow", "SPair-71k": "spair-71k"}  # of the list
FEWEST = 30  # pairs that make a figure
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
    from ..processes import rank_and_world_size
    from ..zoo import DEFAULT_MODEL

    matcher = load(DEFAULT_MODEL if model is None else model, sides, device, backbone, flip=flip)
    if sides not in (None, matcher.size) and rank_and_world_size()[0] == 0:
        width, height = matcher.size
        multiple = matcher.method.backbone.multiple
        typer.echo(
            f"dhpf: note: input of {width}x{height}, as this model takes multiples of {multiple}", err=True
        )
    return matcher


def models(
    name: Annotated[Optional[str], typer.Argument(help="Tell all about this one.")] = None,
) -> None:
    """List the models: what each reaches and costs.

    Examples:

      dhpf models

      dhpf models dinov2-small
    """
    from ..errors import unknown
    from ..zoo import models as cards

    if name is None:
        _list(cards())
        return
    if name not in cards():
        raise unknown("model", name, cards())
    for what, text in _described(cards()[name]):
        typer.echo(f"{what:<9} {text}")


def _list(cards: Mapping[str, Card]) -> None:
    """A table: PCK at 0.1 on pairs of which the model has seen no image, time and memory."""
    from ..zoo import DEFAULT_MODEL

    width = max(map(len, cards)) + 1
    typer.echo(f"{'model':<{width}}  {'  '.join(COLUMNS)}  seconds    MB  what")
    for card in cards.values():
        found = {title: unseen(card.figures.get(key)) for title, key in COLUMNS.items()}
        figures = [
            f"{'' if clean is None else format(clean['pck']['0.1'], '.1f'):>{len(title)}}"
            for title, clean in found.items()
        ]
        cost = ("", "") if card.cost is None else (f"{card.cost.seconds:.2f}", str(card.cost.megabytes))
        name = f"{card.name}*" if card.name == DEFAULT_MODEL else card.name
        typer.echo(f"{name:<{width}}  {'  '.join(figures)}  {cost[0]:>7}  {cost[1]:>4}  {card.summary}")
    typer.echo(
        "\n* the default. Percent of points right within 0.1, on pairs of which no image was trained on; "
        "seconds and memory for two new photos.\n"
        "All about one, with protocols, data and licences: dhpf models NAME"
    )


def unseen(figures: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Of what was measured, the part of pairs that share no image with training.

    None where the model does not name its images, so that nobody can tell, or where the pairs are too few.
    """
    clean = (figures or {}).get("leak_free")
    return clean if clean and "pck" in clean and clean["pairs"] >= FEWEST else None


def _described(card: Card) -> Iterator[tuple[str, str]]:
    from ..backbones.weights import find_backbone

    weights = find_backbone(card.backbone)
    where = "bundled" if weights.bundled else f"downloaded at first use from {weights.source}"
    yield "what", card.summary
    yield "method", card.method
    if {"gating", "layers", "layer"} & {*card.config}:
        yield "layers", _layers(card.config, len(weights.build().channels))
    yield "input", "{} x {} pixels".format(*card.size)
    yield "backbone", f"{weights.name}: {weights.origin}; {weights.licence}; {where}"
    if card.training is not None:
        how = card.training
        yield "trained", f"{how.data}; recipe {how.recipe}, commit {how.commit}, {_time(how.hours)}"
        judged = {key.removeprefix("val "): value for key, value in how.held_out.items() if "/" in key}
        if judged:
            said = ", ".join(f"{name} {value:.1f}" for name, value in judged.items())
            # Splits that a recipe names in data.validate may share images with its training pairs.
            yield "validated", f"{said}; percent at 0.1 in the kept epoch; 'measured' says what is leak-free"
    if card.cost is not None:
        cost = card.cost
        times = f"{cost.seconds:.2f} seconds for two new photos, {cost.seconds_with_features:.2f} if known"
        yield "cost", f"{times}, {cost.megabytes} MB; {cost.machine}; commit {cost.commit}"
    for what, figures in card.figures.items():
        yield "measured", f"{what}: {'; '.join(_figures(figures))}"


def _time(hours: float) -> str:
    if hours >= 0.1:
        return f"{hours:.1f} hours"
    return f"{60 * hours:.1f} minutes" if hours >= 1 / 60 else "less than a minute"


def _layers(config: Mapping[str, Any], count: int) -> str:
    named = config.get("layers") or ([config["layer"]] if "layer" in config else [])
    text = ", ".join(str(layer % count) for layer in named) or "all"  # -1 is the last
    if config.get("gating", "none") != "none":
        return "chosen for each pair" + (f" from {text}" if config.get("layers") else "")
    return f"{text}, for every pair"


def _figures(figures: Mapping[str, Any]) -> Iterator[str]:
    """PCK as a row of numbers, the rest by name; what a method does not have is left out."""
    for name, value in figures.items():
        if value is None:
            continue
        if name == "pck":
            yield f"{' / '.join(f'{pck:.1f}' for pck in value.values())} at {' / '.join(value)}"
        elif isinstance(value, Mapping):
            yield f"{name.replace('_', '-')}: {', '.join(_figures(value))}"
        else:
            yield f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"


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
