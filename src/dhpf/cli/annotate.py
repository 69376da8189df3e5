"""``dhpf annotate``."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from ..errors import InputError
from .given import end_run, files_given
from .match import Backbone, Device, Flip, MinConfidence, Model, PhotoPoints, Size, parse_size
from .models import load_model

if TYPE_CHECKING:
    from ..annotate.annotations import Annotations


def annotate(
    context: typer.Context,
    references: Annotated[
        Path,
        typer.Argument(
            metavar="REFERENCES",
            help="An annotation file (COCO, CVAT, Label Studio, DeepLabCut, plain JSON or CSV) that names "
            "annotated photos; or a photo, with --points.",
        ),
    ],
    photos: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="A folder of photos, or an annotation file with boxes."),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The annotations to write.")],
    images: Annotated[
        Optional[Path],
        typer.Option(
            metavar="DIR", help="Where the photos are that annotation files name; else beside them."
        ),
    ] = None,
    points: PhotoPoints = None,
    format: Annotated[
        str, typer.Option(help="Of the output: coco, cvat, label-studio, deeplabcut, json or csv.")
    ] = "coco",
    references_used: Annotated[
        Optional[int],
        typer.Option("--references", metavar="K", min=1, help="How many references vote: the most similar."),
    ] = None,
    min_confidence: MinConfidence = 0.0,
    contact_sheet: Annotated[
        Optional[Path],
        typer.Option(metavar="FILE.html", help="A page of all photos with their dots, least sure first."),
    ] = None,
    features: Annotated[
        Optional[Path],
        typer.Option(metavar="DIR", help="Keep photos' features here, for later runs: some MB a photo."),
    ] = None,
    cache: Annotated[int, typer.Option(metavar="MB", min=1, help="Memory for photos' features.")] = 1024,
    model: Model = None,
    size: Size = None,
    device: Device = "cpu",
    backbone: Backbone = None,
    flip: Flip = "none",
) -> None:
    """Carry keypoints, polygons and boxes from a few annotated photos to a folder of others.

    Stopped or killed, the same command resumes where it was. Under torchrun the photos are shared out:

      dhpf annotate cats.json photos/ --out annotations.json

      dhpf annotate cat.jpg photos/ --points eyes.csv --out annotations.json --contact-sheet look.html

      torchrun --nproc-per-node 4 --no-python dhpf annotate cats.json photos/ --out annotations.json
    """
    from ..annotate.formats import check_format, encode
    from ..annotate.run import confident, read_job, run
    from ..files import STDOUT, check_outputs, write_together
    from ..processes import rank_and_world_size

    if STDOUT in (out, contact_sheet):
        raise InputError("- is no file name; give one, beside which what is finished is kept")
    check_format(format)
    sides = None if size is None else parse_size(size)
    job = read_job(references, photos, images, points)
    used = [*(target.path for target in job.targets.photos), *(one.path for one in job.references)]
    check_outputs([out, contact_sheet], chain(files_given(context, "out", "contact_sheet"), used))
    paths = {target.name: target.path for target in job.targets.photos}
    first = rank_and_world_size()[0] == 0
    for line in (*job.notes, *job.targets.notes) if first else ():
        typer.echo(f"dhpf: note: {line}", err=True)

    from ..annotate.contact_sheet import contact_sheet as page
    from ..annotate.feature_store import FeatureStore
    from ..annotate.transfer import MOST_VOTES, Annotator

    matcher = load_model(model, sides, device, backbone, flip)
    store = None if features is None else FeatureStore(matcher, features).get
    votes = MOST_VOTES if references_used is None else references_used
    annotator = Annotator(matcher, job.references, votes, store, cache * 2**20)

    def write(found: Annotations) -> None:
        kept = confident(found, min_confidence)
        content, lost = encode(kept, format)
        files = {} if contact_sheet is None else {contact_sheet: page(kept, paths).encode()}
        write_together({**files, out: content})
        for line in lost:
            typer.echo(f"dhpf: note: {line}", err=True)

    done = run(job, annotator, out.with_name(f"{out.name}.run"), write)
    counts = f"{done.labelled} photos annotated, {done.kept} kept from before"
    end_run(counts, done.failed, job.targets.ignored, out)
