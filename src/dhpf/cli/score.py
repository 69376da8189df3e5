"""``dhpf score``: a predictions file -> tables and reports. Needs no torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from ..evaluate.protocol import ALPHAS, DEFAULT_PRESET, PRESETS, protocol_for
from ..files import STDOUT, check_outputs
from .given import files_given

if TYPE_CHECKING:
    from ..evaluate.render import Table

PRESET_HELP = "; ".join(f"{name}: {preset.summary}" for name, preset in PRESETS.items())

Alpha = Annotated[
    list[float], typer.Option(help="A point is right within alpha times the threshold's length; repeat.")
]
ProtocolName = Annotated[str, typer.Option(help=f"What PCK means. {PRESET_HELP}.")]
Changes = Annotated[
    list[str], typer.Option("--set", help="Change a field of the protocol, e.g. average=point; repeat.")
]
TrainList = Annotated[
    Optional[Path], typer.Option(help="Training images, if the model does not name them: names or pairs.")
]
Json = Annotated[
    Optional[Path], typer.Option(metavar="FILE|-", help="Write all figures as JSON; - is standard output.")
]
Csv = Annotated[Optional[Path], typer.Option(help="Write all figures as CSV.")]
Markdown = Annotated[Optional[Path], typer.Option(help="Write the tables as Markdown.")]
Html = Annotated[Optional[Path], typer.Option(help="Write a report with a gallery of pairs.")]


def score(
    context: typer.Context,
    predictions: Annotated[Path, typer.Argument(help="Predictions file, as 'dhpf predict' writes it.")],
    alpha: Alpha = list(ALPHAS),  # noqa: B006  # typer copies it
    protocol: ProtocolName = DEFAULT_PRESET,
    change: Changes = [],  # noqa: B006
    train_list: TrainList = None,
    json: Json = None,
    csv: Csv = None,
    markdown: Markdown = None,
    html: Html = None,
    root: Annotated[
        Optional[Path], typer.Option(help="The data set's folder: images for the gallery.")
    ] = None,
) -> None:
    """Score a predictions file under a protocol."""
    from ..data.registry import lists_in
    from ..evaluate import tables
    from ..evaluate.gallery import image_files
    from ..evaluate.leakage import read_training_list
    from ..evaluate.predictions import Predictions
    from ..evaluate.render import to_markdown
    from ..evaluate.report import report
    from ..evaluate.score import score_predictions

    loaded = Predictions.load(predictions)
    there = () if root is None else chain(image_files(loaded, root), lists_in(loaded.dataset, root))
    given = files_given(context, "json", "csv", "markdown", "html")
    check_outputs((json, csv, markdown, html), chain((predictions,), given, there))
    found = score_predictions(
        loaded,
        protocol_for(loaded.dataset, protocol, change),
        alpha,
        training_images=None if train_list is None else read_training_list(train_list),
    )
    parts, remarks = tables.tables(found), tables.remarks(found)
    outputs = {
        "json": (json, lambda: tables.to_json(tables.to_dict(found))),
        "csv": (csv, lambda: tables.to_csv(found)),
        "markdown": (markdown, lambda: to_markdown(parts, remarks)),
        "html": (html, lambda: report(found, root)),
    }
    publish(parts, remarks, outputs.values(), digits=0)  # so that three alphas fit 80 columns


def publish(
    tables: Sequence[Table],
    remarks: Sequence[str],
    outputs: Iterable[tuple[Path | None, Callable[[], str]]],
    digits: int = 1,
) -> None:
    """Write what was asked for, then show the tables; JSON on standard output stands there alone."""
    from ..evaluate.render import print_tables
    from ..files import write_together
    from ..progress import plain_console

    wanted = {path: text().encode() for path, text in outputs if path is not None}
    write_together(wanted)
    for path in wanted:
        if path != STDOUT:
            typer.echo(f"wrote {path}", err=STDOUT in wanted)
    if STDOUT not in wanted:  # last: a reader that stops early (`| head`) must not cost a file
        print_tables(tables, remarks, plain_console(), digits)
