"""``dhpf predict``, ``dhpf evaluate`` and ``dhpf beam-search``."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout
from inspect import signature
from io import StringIO
from itertools import chain
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from ..errors import InputError
from ..evaluate.beam_search import ALPHA, BEAM, MOST_LAYERS, Step
from ..evaluate.protocol import ALPHAS, DEFAULT_PRESET, DIRECTIONS, alpha_names, protocol_for
from ..files import check_outputs, write_atomically
from .given import files_given
from .match import Backbone, Device, Flip, Model, Size, parse_size
from .models import load_model
from .score import (
    Alpha,
    Changes,
    Csv,
    Html,
    Json,
    Markdown,
    ProtocolName,
    TrainList,
    score,
)

if TYPE_CHECKING:
    from ..data.pairs import PairDataset

MOST_SKIPS = 10  # shown one by one

Dataset = Annotated[str, typer.Option(help="pf-pascal, pf-willow, caltech-101, spair-71k or coco.")]
Root = Annotated[Path, typer.Option(metavar="DIR", help="The data set's folder.")]
Split = Annotated[
    Optional[str],
    typer.Option(
        help="trn, val or test, which is the default; of COCO files their own, by default the only."
    ),
]
Limit = Annotated[
    Optional[int],
    typer.Option(
        metavar="N", min=1, help="Take N pairs only, evenly spaced over the split: 0, M/N, 2M/N, ..."
    ),
]
Layout = Annotated[
    Optional[str], typer.Option(metavar="large|small", help="Of SPair-71k: which of its lists; else large.")
]
Workers = Annotated[
    Optional[int],
    typer.Option(min=1, help="Images and pairs to compute side by side; default: one for each processor."),
]
Cache = Annotated[int, typer.Option(metavar="MB", min=1, help="Memory for images' features.")]


def predict(
    context: typer.Context,
    dataset: Dataset,
    root: Root,
    out: Annotated[Path, typer.Option(metavar="FILE.npz", help="The predictions file.")],
    split: Split = None,
    limit: Limit = None,
    model: Model = None,
    layout: Layout = None,
    direction: Annotated[
        str, typer.Option(metavar="|".join(DIRECTIONS), help="Which way points go in each pair of the list.")
    ] = DIRECTIONS[0],
    size: Size = None,
    device: Device = "cpu",
    backbone: Backbone = None,
    flip: Flip = "none",
    workers: Workers = None,
    cache: Cache = 1024,
) -> None:
    """Predict the points of a benchmark's pairs, and store them in a file for 'dhpf score'.

    Stopped or killed, the same command resumes where it was. Under torchrun the pairs are shared out; the
    file is the same, bit by bit:

      dhpf predict --dataset pf-pascal --root PF-PASCAL --out predictions.npz

      torchrun --nproc-per-node 2 --no-python dhpf predict --dataset pf-pascal --root PF-PASCAL --out p.npz
    """
    sides = parse_size(size) if size else None
    pairs = _open(dataset, root, split, layout)
    check_outputs((out,), chain(files_given(context, "out"), pairs.files()))

    from ..evaluate.predict import predict as predict_pairs

    done = predict_pairs(
        load_model(model, sides, device, backbone, flip),
        pairs,
        out,
        split=pairs.split if layout in (None, "large") else f"{pairs.split}, {layout} layout",
        direction=direction,
        limit=limit,
        workers=workers,
        cache_bytes=cache * 2**20,
    )
    if done.predictions is None:
        return  # the first process of torchrun speaks for all
    skipped = done.predictions.skipped
    for pair, reason in skipped[:MOST_SKIPS]:
        typer.echo(f"dhpf: skipped {pair}: {reason}", err=True)
    if len(skipped) > MOST_SKIPS:
        typer.echo(f"dhpf: {len(skipped) - MOST_SKIPS} more skipped; {out} names them", err=True)
    typer.echo(f"{len(done.predictions)} pairs predicted, {len(skipped)} skipped: {out}")


def evaluate(
    context: typer.Context,
    dataset: Dataset,
    root: Root,
    out: Annotated[
        Optional[Path],
        typer.Option(metavar="FILE.npz", help="Keep the predictions; a run that was stopped goes on there."),
    ] = None,
    split: Split = None,
    limit: Limit = None,
    model: Model = None,
    layout: Layout = None,
    size: Size = None,
    device: Device = "cpu",
    backbone: Backbone = None,
    flip: Flip = "none",
    workers: Workers = None,
    cache: Cache = 1024,
    alpha: Alpha = list(ALPHAS),  # noqa: B006  # typer copies it
    protocol: ProtocolName = DEFAULT_PRESET,
    change: Changes = [],  # noqa: B006
    train_list: TrainList = None,
    json: Json = None,
    csv: Csv = None,
    markdown: Markdown = None,
    html: Html = None,
) -> None:
    """Predict and score: 'dhpf predict' and 'dhpf score' in one.

    Points go in the direction that the protocol wants.

      dhpf evaluate --model hpf-resnet50 --dataset pf-pascal --root PF-PASCAL --split test
    """
    options = dict(locals())

    from ..data.registry import find_dataset
    from ..evaluate.leakage import read_training_list
    from ..processes import rank_and_world_size

    find_dataset(dataset)
    direction = protocol_for(dataset, protocol, change).direction  # errors before hours of work, not after
    alpha_names(alpha)
    if train_list is not None:
        read_training_list(train_list)
    given = files_given(context, "out", "json", "csv", "markdown", "html")
    check_outputs((out, json, csv, markdown, html), chain(given, _files(dataset, root, split, layout)))

    rank, world = rank_and_world_size()
    if out is None and world > 1:
        raise InputError("under torchrun, name the file in which the processes meet: --out FILE.npz")
    with tempfile.TemporaryDirectory() as folder:
        kept = out or Path(folder) / "predictions.npz"
        # Standard output is for the score; a file that does not stay is not worth a line.
        with redirect_stdout(StringIO() if out is None else sys.stderr):
            _call(predict, options | {"out": kept, "direction": direction})
        if rank == 0:
            _call(score, options | {"predictions": kept})


def _call(command: Callable[..., None], options: Mapping[str, Any]) -> None:
    """Run a command with those of the options that it has."""
    command(**{name: options[name] for name in signature(command).parameters})


def beam_search(
    context: typer.Context,
    dataset: Dataset,
    root: Root,
    split: Annotated[str, typer.Option(help="trn, val or test.")] = "val",
    exclude_pairs_of: Annotated[
        Optional[str],
        typer.Option(metavar="SPLIT", help="Leave out pairs that this split has too, in either order."),
    ] = None,
    every: Annotated[
        int, typer.Option(metavar="N", min=1, help="Search on every N-th pair only, for time.")
    ] = 1,
    beam: Annotated[int, typer.Option(min=1, help="Sets of layers that are kept in each step.")] = BEAM,
    max_layers: Annotated[int, typer.Option(min=1, help="Of a set.")] = MOST_LAYERS,
    alpha: Annotated[float, typer.Option(help="Of the PCK by which sets are ranked.")] = ALPHA,
    protocol: ProtocolName = DEFAULT_PRESET,
    change: Changes = [],  # noqa: B006  # typer copies it
    model: Model = None,
    layout: Layout = None,
    size: Size = None,
    device: Device = "cpu",
    backbone: Backbone = None,
    workers: Workers = None,
    json: Annotated[Optional[Path], typer.Option(help="Write the PCK of each step as JSON.")] = None,
) -> None:
    """Search the layers of the best static hyperpixels (HPF) on a validation set.

    dhpf beam-search --dataset pf-pascal --root PF-PASCAL --split val --exclude-pairs-of test
    """
    from ..data.registry import find_dataset

    find_dataset(dataset)
    rules = protocol_for(dataset, protocol, change)
    sides = parse_size(size) if size else None
    pairs = _open(dataset, root, split, layout)
    check_outputs([json], chain(files_given(context, "json"), pairs.files()))
    others = _open(dataset, root, exclude_pairs_of, layout) if exclude_pairs_of else None

    from ..evaluate.layer_search import search_layers
    from ..zoo import UNTRAINED

    found = search_layers(
        load_model(UNTRAINED if model is None else model, sides, device, backbone),
        pairs,
        exclude=others,
        every=every,
        beam=beam,
        most_layers=max_layers,
        protocol=rules,
        alpha=alpha,
        workers=workers,
        report=_show_step,
    )
    if json is not None:
        about = {"dataset": dataset, "split": split, "model": model or UNTRAINED}
        write_atomically(json, (dumps(about | found.to_dict(), indent=2) + "\n").encode())
    typer.echo(f"{found.pairs} pairs, {found.excluded} excluded, {len(found.skipped)} skipped")
    typer.echo(f"PCK@{alpha:g} {rules.fingerprint()}")
    for name, (layers, pck) in (("found", found.found), ("before", found.reference)):
        typer.echo(f"{name:8}{pck:6.2f}  {layers}")


def _show_step(step: Step) -> None:
    typer.echo(f"{len(step.beam[0].layers)} layers, {step.tried} sets tried:")
    for layers, pck in step.beam:
        typer.echo(f"{pck:8.2f}  {layers}")


def _files(dataset: str, root: Path, split: str | None, layout: str | None) -> Iterator[Path]:
    """Those of a data set, which is opened when they are asked for."""
    yield from _open(dataset, root, split, layout).files()


def _open(dataset: str, root: Path, split: str | None, layout: str | None) -> PairDataset:
    from ..data import SPair71k, open_dataset

    if layout is None:
        return open_dataset(dataset, root, split)
    if dataset != SPair71k.name:
        raise InputError(f"--layout {layout}: only spair-71k has layouts, {dataset} has none")
    return SPair71k(root, split or "test", layout)
