"""``dhpf score``: a predictions file -> tables and reports. Needs no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..evaluate.protocol import ALPHAS, DEFAULT_PRESET, PRESETS, protocol_for
from ..files import check_writable

PRESET_HELP = "; ".join(f"{name}: {preset.summary}" for name, preset in PRESETS.items())


def score(
    predictions: Annotated[Path, typer.Argument(help="Predictions file, as `dhpf predict` writes it.")],
    alpha: Annotated[
        list[float], typer.Option(help="A point is right within alpha times the threshold's length; repeat.")
    ] = list(ALPHAS),  # noqa: B006  # typer copies it
    protocol: Annotated[str, typer.Option(help=f"What PCK means. {PRESET_HELP}.")] = DEFAULT_PRESET,
    change: Annotated[
        list[str], typer.Option("--set", help="Change a field of the protocol, e.g. average=point; repeat.")
    ] = [],  # noqa: B006
    train_list: Annotated[
        Path | None,
        typer.Option(help="Training images, if the predictions do not name them: names or pairs."),
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write all figures as JSON.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write all figures as CSV.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write the tables as Markdown.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a report with charts and a gallery.")] = None,
    root: Annotated[Path | None, typer.Option(help="The data set's folder: photos for the gallery.")] = None,
) -> None:
    """Score a predictions file under a protocol."""
    from rich.console import Console

    from ..evaluate.leakage import read_training_list
    from ..evaluate.predictions import Predictions
    from ..evaluate.report import to_html
    from ..evaluate.score import score_predictions
    from ..evaluate.storage import write_file
    from ..evaluate.tables import print_score, to_csv, to_json, to_markdown

    for path in (json, csv, markdown, html):
        if path is not None:
            check_writable(path)
    loaded = Predictions.load(predictions)
    found = score_predictions(
        loaded,
        protocol_for(loaded.dataset, protocol, change),
        alpha,
        training_images=None if train_list is None else read_training_list(train_list),
    )
    for path, write in ((json, to_json), (csv, to_csv), (markdown, to_markdown)):
        if path is not None:
            write_file(path, write(found).encode())
    if html is not None:
        write_file(html, to_html(loaded, found, root).encode())
    print_score(found, Console())  # last: a reader that stops early (`| head`) must not cost a file
