"""``dhpf train``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer


def train(
    recipe: Annotated[Path, typer.Argument(metavar="RECIPE.toml", help="What to train, on what, how long.")],
    change: Annotated[
        Optional[list[str]],
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of the recipe: loss.mu=0.3."),
    ] = None,
    out: Annotated[
        Optional[Path], typer.Option(metavar="DIR", help="The run's folder; by default runs/NAME.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in that folder, exactly where it was.")
    ] = False,
    features: Annotated[
        Optional[Path], typer.Option(metavar="DIR", help="Where backbone features are kept between runs.")
    ] = None,
) -> None:
    """Train gates and transformations.

    Examples:

      dhpf train recipes/resnet50-strong.toml --set data.root=datasets

      dhpf train recipes/resnet50-strong.toml --set loss.mu=0.3 --out runs/mu03

      torchrun --nproc-per-node 4 --no-python dhpf train recipes/resnet50-weak.toml --resume
    """
    from ..train.recipe import read_recipe

    config = read_recipe(recipe, change or ())

    from ..train.loop import train as run  # torch takes a while: only now

    best = run(config, out or Path("runs") / config.name, resume, features)
    typer.echo(f"the best head is here: {best}")
