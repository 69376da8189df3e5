"""What commands share: which files a command line names, and how a run of many photos ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import typer

FILES_OR_NAMES = ("model", "points")  # options that take a file or something else


def files_given(context: typer.Context, *outputs: str) -> Iterator[Path]:
    """What all arguments and options name, but for these: no command forgets one that it must not replace."""
    for option, value in context.params.items():
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if option not in outputs and (
                isinstance(one, Path) or (option in FILES_OR_NAMES and isinstance(one, str))
            ):
                yield Path(one)


def end_run(done: str, failed: Sequence[str], ignored: int, out: Path) -> None:
    """Say what was done and what failed, a line each; with exit code 1 if anything did."""
    for line in failed:
        typer.echo(f"dhpf: failed: {line}", err=True)
    others = f", {ignored} files that are not photos ignored" if ignored else ""
    typer.echo(f"{done}, {len(failed)} failed{others}: {out}")
    if failed:
        raise typer.Exit(1)
