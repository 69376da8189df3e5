"""Figure 6 of the paper from the package's own photos: five systems on the same pairs, source to target.

    python -m benchmarks.figure6 [--models NAME NAME NAME NAME NAME] [--out docs/images/figure6.png]

By default the systems of the paper's figure, as far as there are models of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from benchmarks.model_times import bundled_models
from benchmarks.record import ROOT
from benchmarks.table1 import on_shared_backbones
from dhpf.images import read_image
from dhpf.samples import sample_pair
from dhpf.viz.canvas import sheet, shrunk
from dhpf.zoo import DEFAULT_MODEL, models

METHODS = ("dhpf", "weakalign", "a2net", "ncnet", "hpf", "scnet", "nearest", "proposal_flow")  # first five
PAIRS = ("birds", "cattle", "big-cats")
SIDE = 400  # of a panel, in pixels of the drawing before it is shrunk


def default_models() -> list[str]:
    """One a method, the first of each in the list of models."""
    cards = [
        models()[name] for name in bundled_models() if name != DEFAULT_MODEL
    ]  # it is on another backbone
    first = {card.method: card.name for card in reversed(cards)}
    return [first[method] for method in METHODS if method in first][:5] or [DEFAULT_MODEL]


def figure(names: Sequence[str], pairs: Sequence[str]) -> Image.Image:
    """A row for each pair: source, target, and the source warped by each model."""
    matchers = {name: matcher for group in on_shared_backbones(names) for name, matcher in group.items()}
    rows = []
    for pair in pairs:
        source, target = (read_image(path) for path in sample_pair(pair))
        warped = [matchers[name].match(source, target, scores=False).warp() for name in names]
        panels = [_panel(image) for image in (source, target, *warped)]
        rows.append(shrunk(sheet(panels, [], ["source", "target", *names])))
    whole = Image.new("RGB", (rows[0].width, sum(row.height for row in rows)), "white")
    for number, row in enumerate(rows):
        whole.paste(row, (0, sum(above.height for above in rows[:number])))
    return whole


def _panel(image: Image.Image) -> Image.Image:
    """Whole, in the middle of a white square."""
    scale = SIDE / max(image.size)
    small = image.resize((round(image.width * scale), round(image.height * scale)), Image.Resampling.LANCZOS)
    square = Image.new("RGB", (SIDE, SIDE), "white")
    square.paste(small, ((SIDE - small.width) // 2, (SIDE - small.height) // 2))
    return square


def main() -> None:
    """Match, warp, draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=[*models()], default=default_models())
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images" / "figure6.png")
    arguments = parser.parse_args()
    figure(arguments.models, PAIRS).quantize(256).save(arguments.out, optimize=True)
    print(f"wrote {arguments.out}: {', '.join(arguments.models)}")


if __name__ == "__main__":
    main()
