"""Style "heat": how well every location of the target fits one point of the source."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.ndimage import map_coordinates

from ..grid import Grid, resize_points
from .canvas import Entry, Pen, confidence_scale, panel, placed, sheet, shrunk
from .colours import NEUTRAL, colours
from .lines import describe

if TYPE_CHECKING:
    from ..match import Match
    from ..points import Points

DIM = 0.5


def draw_heat(match: Match, points: Points) -> Image.Image:
    """Draw one source point (1, 2), and its scores over the target, where a ring marks the point's match."""
    scores = match.scores(points[0])
    highest = float(scores.max())
    source, target = panel(match.source), panel(match.target)
    Pen(source).dot(placed(points, match.source.size)[0], NEUTRAL)
    heat = over_panel(scores / max(highest, 1e-12), match.target_grid, match.size, target.size)
    target = Image.fromarray(_tinted(np.asarray(target.convert("L"), np.float64), heat))
    Pen(target).ring(placed(match.transfer(points), match.target.size)[0], 9)
    legend = [confidence_scale(f"{highest:.2g}"), [Entry(describe(match))]]
    return shrunk(sheet([source, target], legend, ["source, and the point", "target, and where it fits"]))


def over_panel(
    on_grid: NDArray[np.floating], grid: Grid, size: tuple[int, int], panel_size: tuple[int, int]
) -> NDArray[np.float64]:
    """A quantity on a grid at every pixel of a panel; ``size`` is the network's input, width and height."""
    diagonal = np.arange(max(panel_size))[:, None].repeat(2, axis=1)
    cells = (resize_points(diagonal, panel_size, size) - grid.offset) / grid.stride
    columns, rows = cells[: panel_size[0], 0], cells[: panel_size[1], 1]
    smooth: NDArray[np.float64] = map_coordinates(
        on_grid.astype(np.float64), np.meshgrid(rows, columns, indexing="ij"), order=1, mode="nearest"
    )
    return smooth


def _tinted(grey: NDArray[np.float64], heat: NDArray[np.float64]) -> NDArray[np.uint8]:
    """A grey image under the colours of the heat, which cover it more where there is more.

    The image is dimmed: heat must be lighter than the lightest image.
    """
    cover = (0.35 + 0.5 * heat)[..., None]
    mixed = (1 - cover) * DIM * grey[..., None] + cover * colours(heat)
    return np.rint(mixed).astype(np.uint8)
