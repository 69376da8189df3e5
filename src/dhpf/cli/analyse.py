"""``dhpf analyse``: which layers are chosen, over a data set or for one pair."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Optional

import typer

from ..errors import InputError
from .evaluate import Split, Workers
from .given import files_given
from .match import Backbone, Device, Size, parse_size
from .models import load_model


def analyse(
    context: typer.Context,
    predictions: Annotated[
        Optional[list[Path]],
        typer.Argument(metavar="PREDICTIONS.npz", help="Files of 'dhpf predict', one for each model."),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder for the report.")] = Path("analysis"),
    model: Annotated[
        Optional[list[str]],
        typer.Option(
            metavar="NAME|FILE", help="A name from 'dhpf models', or a head file; repeat to compare."
        ),
    ] = None,
    dataset: Annotated[
        Optional[str], typer.Option(help="Predict pf-pascal, pf-willow, caltech-101 or spair-71k first.")
    ] = None,
    root: Annotated[Optional[Path], typer.Option(metavar="DIR", help="The data set's folder.")] = None,
    split: Split = None,
    timed_pairs: Annotated[
        Optional[int],
        typer.Option(metavar="N", min=1, help="Pairs on which the models are timed, at most; else 50."),
    ] = None,
    pair: Annotated[
        Optional[tuple[Path, Path]],
        typer.Option(metavar="A B", help="Two photos: what would each other choice of layers change?"),
    ] = None,
    points: Annotated[
        Optional[Path],
        typer.Option(metavar="FILE.json|csv", help="With --pair: source points to follow, in pixels of A."),
    ] = None,
    size: Size = None,
    device: Device = "cpu",
    backbone: Backbone = None,
    workers: Workers = None,
) -> None:
    """Show which layers are chosen: for each category, how often, how many; and accuracy against time.

    From predictions files; or predict first, and measure the time per pair as well; or look at one pair:

      dhpf analyse strong.npz weak.npz --out analysis

      dhpf analyse --model hpf-resnet50 --model head.safetensors --dataset pf-pascal --root DATA --out DIR

      dhpf analyse --pair a.jpg b.jpg --model head.safetensors --out analysis
    """
    if sum(map(bool, (predictions, dataset, pair))) != 1:
        raise InputError("give predictions files, or --model with --dataset and --root, or --pair A B")
    if predictions and model:
        raise InputError("predictions files name their model: give files or --model, not both")
    if dataset and root is None:
        raise InputError(f"--dataset {dataset} needs its folder: --root DIR")
    if points is not None and pair is None:
        raise InputError("--points are for one pair: dhpf analyse --pair A B --points FILE")
    if pair is not None and len(model or []) > 1:
        raise InputError("--pair looks at one model; give one --model")
    sides = parse_size(size) if size else None

    from rich.console import Console

    from ..analysis.charts import check_matplotlib
    from ..analysis.report import print_overview, write_report
    from ..files import make_folder

    check_matplotlib()
    if pair is not None:
        inputs = files_given(context, "out")
        _analyse_pair(pair, points, out, model[0] if model else None, sides, device, backbone, inputs)
        return
    if predictions:
        from ..analysis.study import study_files

        models = study_files(predictions)
        make_folder(out)
    else:
        from ..analysis.study import study_models
        from ..analysis.timing import TIMED_PAIRS
        from ..data.registry import open_dataset
        from ..zoo import DEFAULT_MODEL

        pairs = open_dataset(str(dataset), Path(root or "."), split)
        names = model or [DEFAULT_MODEL]
        matchers = [load_model(name, sides, device, backbone) for name in names]
        make_folder(out)
        models = study_models(matchers, pairs, out, timed_pairs or TIMED_PAIRS, workers)
    written = write_report(models, out, files_given(context, "out"))
    typer.echo(f"wrote {written[-1]} and {len(written) - 1} more files in {out}")
    print_overview(models, Console())


def _analyse_pair(
    pair: tuple[Path, Path],
    points: Path | None,
    out: Path,
    model: str | None,
    sides: tuple[int, int] | None,
    device: str,
    backbone: Path | None,
    inputs: Iterable[Path],
) -> None:
    from rich.console import Console

    from ..files import make_folder
    from ..images import read_image
    from ..points import check_points, read_points

    source, target = (read_image(path) for path in pair)
    given = check_points(read_points(points), source.size) if points else None

    from ..analysis.pair import study_pair
    from ..analysis.pair_report import print_pair, write_pair

    matcher = load_model(model, sides, device, backbone)
    make_folder(out)
    study = study_pair(matcher, source, target, given)
    for path in write_pair(study, out, inputs):
        typer.echo(f"wrote {path}")
    print_pair(study, Console())
