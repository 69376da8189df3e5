"""``dhpf train``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer


def train(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="NAME|RECIPE.toml", help="What to train, on what, how long: a bundled recipe, or a file."
        ),
    ],
    change: Annotated[
        Optional[list[str]],
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of the recipe: loss.mu=0.3."),
    ] = None,
    out: Annotated[
        Optional[Path], typer.Option(metavar="DIR", help="The run's folder; by default runs/NAME.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume the run in that folder, exactly where it was.")
    ] = False,
    features: Annotated[
        Optional[Path], typer.Option(metavar="DIR", help="Where backbone features are kept between runs.")
    ] = None,
) -> None:
    """Train a method on the features of a frozen backbone.

    Examples:

      dhpf train resnet50-strong --set data.root=datasets

      dhpf train resnet50-strong --set loss.mu=0.3 --out runs/mu03

      torchrun --nproc-per-node 4 --no-python dhpf train resnet50-weak --resume
    """
    from ..memory import keep_freed_memory
    from ..train.loop import train as run
    from ..train.recipe import read_recipe

    config = read_recipe(recipe, change or ())
    keep_freed_memory()  # this process does nothing else

    best = run(config, out or Path("runs") / config.name, resume, features)
    typer.echo(f"the best head is here: {best}")
