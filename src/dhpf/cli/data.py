"""``dhpf data``: list, check, download and generate data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="List, check, download and generate data sets.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="pf-pascal, pf-willow, caltech-101, spair-71k or coco.")]


@app.command("list")
def list_datasets() -> None:
    """Show the data sets: pairs, default threshold, official page, and where a download is."""
    from ..data.download import dataset_folder
    from ..data.registry import DATASETS

    for name, info in sorted(DATASETS.items()):
        pairs = ", ".join(f"{split} {count:,}" for split, count in info.pairs.items())
        folder = dataset_folder(info)
        there = f"{folder}" + ("" if folder.exists() else " (not downloaded)")
        typer.echo(name)
        typer.echo(f"  pairs      {pairs or 'any two objects of a category in your own COCO keypoints file'}")
        typer.echo(f"  threshold  {info.threshold}")
        typer.echo(f"  page       {info.page}")
        typer.echo(f"  folder     {there if info.files else 'any'}")


@app.command()
def check(
    root: Annotated[Path, typer.Argument(help="The folder of a data set; which one is recognised.")],
) -> None:
    """Say what is complete, missing or damaged in a folder.

    The exit code is 0 if everything that the pair lists name is there and readable, and 1 if not.
    """
    from ..data.check import check as check_folder

    report = check_folder(root)
    for line in report.lines:
        typer.echo(line)
    if not report.complete:
        raise typer.Exit(1)


@app.command()
def download(name: Name) -> None:
    """Download a data set to the cache folder, which the environment variable DHPF_HOME moves.

    An interrupted download is resumed by the same command.
    """
    from ..data.download import download as download_dataset

    folder, files = download_dataset(name)
    for file in files:
        state = "verified" if file.verified else "not verified: its authors publish no checksum"
        typer.echo(f"{file.path.name}: sha256 {file.sha256} ({state})")
    typer.echo(f"{name} is in {folder}" if files else f"{name} is already in {folder}")
    typer.echo(f"to check it: dhpf data check '{folder}'")


@app.command()
def mini(
    name: Name,
    root: Annotated[Path, typer.Argument(help="An empty or new folder.")],
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same files.")] = 0,
) -> None:
    """Generate a mini data set in the official layout, to try the other commands with no download."""
    from ..data.mini import make_mini

    make_mini(name, root, seed)
    typer.echo(f"wrote a mini {name} to {root}")
