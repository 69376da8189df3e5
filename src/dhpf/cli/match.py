"""``dhpf match`` and ``dhpf match-many``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from ..errors import InputError
from ..files import STDOUT
from .given import end_run, files_given
from .models import load_model

FEW = 3  # automatic points: fewer say that a pair looks unmatched


def not_empty(option: typer.CallbackParam, given: Optional[str]) -> Optional[str]:
    """An unset "$VARIABLE" is not a wish for the default."""
    if given == "":
        raise InputError(f"{option.opts[0]} is empty; give a value, or leave it out for the default")
    return given


Model = Annotated[
    Optional[str],
    typer.Option(metavar="NAME|FILE", callback=not_empty, help="As in 'dhpf models', or a head file."),
]
Size = Annotated[
    Optional[str],
    typer.Option(metavar="N|WxH", callback=not_empty, help="Of the network's input: 240, 320x240."),
]
Device = Annotated[str, typer.Option(help="Where to compute: cpu, cuda, cuda:1.")]
Backbone = Annotated[
    Optional[Path],
    typer.Option(metavar="FILE", help="A local .pth or .safetensors with the backbone's weights."),
]


def probability(option: typer.CallbackParam, given: float) -> float:
    """From 0 to 1, and a number."""
    if not 0 <= given <= 1:
        raise InputError(f"{option.opts[0]} {given:g}: wanted a number from 0 to 1")
    return given


MinConfidence = Annotated[
    float,
    typer.Option(metavar="P", callback=probability, help="Points that are less sure are not there: 0 to 1."),
]
Flip = Annotated[
    str,
    typer.Option(
        metavar="none|auto", help="auto: match mirrored targets too, keep what the model is surer of."
    ),
]


PhotoPoints = Annotated[
    Optional[str],
    typer.Option(
        metavar="FILE|X,Y",
        callback=not_empty,
        help="Source points to transfer, in pixels: 76,136, a CSV or JSON file of points with or without "
        "names, or an annotation file (COCO, CVAT, Label Studio, DeepLabCut).",
    ),
]


def parse_size(text: str) -> tuple[int, int]:
    """'240' or '320x240' -> width, height."""
    try:
        sides = [int(side) for side in text.lower().split("x")]
    except ValueError:
        sides = []
    if len(sides) not in (1, 2):
        raise InputError(f"size '{text}': wanted one number or WIDTHxHEIGHT, such as 240 or 320x240")
    return sides[0], sides[-1]


def check_keeps_scores(model: str | None) -> None:
    """Raise if a model has nothing to show in style "heat"."""
    from ..viz.styles import STYLES
    from ..zoo import DEFAULT_MODEL, method_of

    name = DEFAULT_MODEL if model is None else model
    if not method_of(name).keeps_scores:
        others = ", ".join(style for style in STYLES if style != "heat")
        raise InputError(f"{name} keeps no scores of single matches for style 'heat'; choose {others}")


def match(
    context: typer.Context,
    source: Annotated[Optional[Path], typer.Argument(metavar="A", help="The source photo.")] = None,
    target: Annotated[Optional[Path], typer.Argument(metavar="B", help="The target photo.")] = None,
    points: PhotoPoints = None,
    out: Annotated[
        Optional[Path],
        typer.Option(help="Draw the matches to this picture; match.png if no output is named."),
    ] = None,
    json: Annotated[
        Optional[Path],
        typer.Option(help="Write points, confidences and layers as JSON; - for standard output."),
    ] = None,
    csv: Annotated[
        Optional[Path], typer.Option(help="Write points and confidences as CSV, with names.")
    ] = None,
    flow: Annotated[Optional[Path], typer.Option(help="Write dense flow and confidence as .npz.")] = None,
    warp: Annotated[Optional[Path], typer.Option(help="Write A warped onto B as a picture.")] = None,
    style: Annotated[
        Optional[str],
        typer.Option(help="How --out is drawn: lines (as without it), points, truth, warp, flow or heat."),
    ] = None,
    truth: Annotated[
        Optional[Path],
        typer.Option(
            metavar="FILE.json|csv", help="Where --points belong, in pixels of B; for --style truth."
        ),
    ] = None,
    sample: Annotated[
        Optional[str],
        typer.Option(help="Match a bundled pair instead: cheetahs, birds, cattle, cats or big-cats."),
    ] = None,
    model: Model = None,
    size: Size = None,
    device: Device = "cpu",
    backbone: Backbone = None,
    flip: Flip = "none",
    min_confidence: MinConfidence = 0.0,
) -> None:
    """Match two photos.

    Examples:

      dhpf match cat1.jpg cat2.jpg

      dhpf match a.jpg b.jpg --points eyes.json --json matched.json

      dhpf match a.jpg b.jpg --points 76,136 --json -

      dhpf match a.jpg b.jpg --size 320x240 --flow flow.npz --warp warped.png

      dhpf match a.jpg b.jpg --style flow --out flow.png
    """
    from .. import samples
    from ..annotate.photo_points import read_photo_points
    from ..files import write_together
    from ..images import read_image
    from ..outputs import Outputs
    from ..points import check_points, read_points
    from ..viz.styles import STYLES, check_style

    if sample is not None:
        if source is not None:
            raise InputError("give two photos or --sample, not both")
        source, target = samples.sample_pair(sample)
    if source is None or target is None:
        raise InputError("give two photos: dhpf match A B (or try: dhpf match --sample cheetahs)")
    if not any((out, json, csv, flow, warp)):
        out = Path("match.png")
    if style is not None and out is None:
        raise InputError("--style is how the picture is drawn: name it with --out")
    sides = None if size is None else parse_size(size)
    outputs = Outputs(out, json, flow, warp, STYLES[0] if style is None else style, csv, min_confidence)
    outputs.check(source, target, *files_given(context, "out", "json", "csv", "flow", "warp"))
    if outputs.style == "heat":
        check_keeps_scores(model)
    photo_a, photo_b = read_image(source), read_image(target)
    marked, names = read_photo_points(points, source) if points else (None, None)
    given = None if marked is None else check_points(marked, photo_a.size)
    belong = read_points(truth, "target_points") if truth else None
    check_style(outputs.style, *(None if some is None else len(some) for some in (given, belong)))

    matcher = load_model(model, sides, device, backbone, flip)  # torch takes a while: only now
    result = matcher.match(photo_a, photo_b)
    write_together(outputs.render(result, given, truth=belong, names=names))
    quiet = json == STDOUT  # so that it holds nothing but JSON
    layers = "" if result.layers is None else f", layers {', '.join(map(str, result.layers))}"
    typer.echo(f"matched {source} with {target}: {result.model}{layers}", err=quiet)
    if given is None and len(result.keypoints()) < FEW:
        typer.echo(
            "dhpf: note: these photos show little that is alike, as far as the model can tell", err=True
        )
    for path in outputs.paths():
        if path != STDOUT:
            typer.echo(f"wrote {path}", err=quiet)


def match_many(
    context: typer.Context,
    pairs: Annotated[
        Path,
        typer.Argument(
            metavar="PAIRS.csv|FOLDER|PHOTO",
            help="A CSV with columns source,target and optionally points (a points file); "
            "a folder, all of whose photos are matched with each other; or a photo, before its folder.",
        ),
    ],
    folder: Annotated[
        Optional[Path],
        typer.Argument(metavar="FOLDER", help="The photos that PHOTO is matched with, one to many."),
    ] = None,
    *,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="One JSON a pair goes here, and what else is asked for.")
    ],
    points: PhotoPoints = None,
    draw: Annotated[bool, typer.Option("--draw", help="Also a picture of each pair.")] = False,
    style: Annotated[
        Optional[str], typer.Option(help="How --draw draws: lines (as without it), warp or flow.")
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Also the points as CSV, with names.")] = False,
    flow: Annotated[bool, typer.Option("--flow", help="Also dense flow and confidence, as .npz.")] = False,
    warp: Annotated[bool, typer.Option("--warp", help="Also the source warped onto the target.")] = False,
    cache: Annotated[int, typer.Option(metavar="MB", min=1, help="Memory for photos' features.")] = 1024,
    model: Model = None,
    size: Size = None,
    device: Device = "cpu",
    backbone: Backbone = None,
    flip: Flip = "none",
    min_confidence: MinConfidence = 0.0,
) -> None:
    """Match many pairs, each photo's features computed once.

    Stopped or killed, the same command resumes where it was. Under torchrun the pairs are shared out:

      dhpf match-many pairs.csv --out matches

      dhpf match-many cat.jpg photos/ --points eyes.csv --out matches

      torchrun --nproc-per-node 4 --no-python dhpf match-many photos/ --out matches --draw
    """
    from ..annotate.photo_points import read_photo_points
    from ..images import read_image
    from ..pair_list import one_to_many
    from ..points import parse_points
    from ..viz.styles import OF_ANY_PAIR, check_style_of_any_pair

    sides = None if size is None else parse_size(size)
    if style is not None and not draw:
        raise InputError("--style is how --draw draws: give both")
    chosen = OF_ANY_PAIR[0] if style is None else style
    check_style_of_any_pair(chosen)
    if points is not None and folder is None:
        raise InputError(
            "--points are those of one photo: give it and a folder, or a column points in the list"
        )
    if folder is not None:
        one_to_many(pairs, folder)  # before the model is loaded
        read_image(pairs)  # one line if it is damaged, not one a pair
    typed: Path | str | None = None
    if points is not None:
        typed = points if parse_points(points) else Path(points)
        read_photo_points(typed, pairs)  # before the model is loaded

    from ..many import Wanted
    from ..many import match_many as run

    matcher = load_model(model, sides, device, backbone, flip)
    wanted = Wanted(draw, flow, warp, chosen, csv, min_confidence)
    done = run(matcher, pairs, out, wanted, cache * 2**20, folder, typed, files_given(context, "out"))
    counts = f"{done.matched} pairs matched, {done.kept} kept from before"
    end_run(counts, done.failed, done.ignored, out)
