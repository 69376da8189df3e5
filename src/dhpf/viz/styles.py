"""The styles of ``match.draw``, and what each needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from ..errors import InputError, unknown
from ..points import Points, as_points

if TYPE_CHECKING:
    from PIL import Image

    from ..match import Match

STYLES = ("lines", "points", "truth", "warp", "flow", "heat")
OF_ANY_PAIR = ("lines", "points", "warp", "flow")  # can be drawn when nothing but the pair is known


def check_style(style: str, points: int | None, truth: int | None) -> None:
    """Raise if a style is not known, or does not go with the numbers of points and true locations given."""
    if style not in STYLES:
        raise unknown("style", str(style), STYLES)
    if style != "truth" and truth is not None:
        raise InputError(f"style '{style}' shows no true locations; choose style 'truth' or leave truth out")
    if style == "truth" and (points is None or truth is None):
        raise InputError(
            "style 'truth' needs source points and where they belong in the target: points and truth"
        )
    if style == "truth" and points != truth:
        raise InputError(
            f"style 'truth' needs a true location for each point: {points} points, {truth} true locations"
        )
    if style == "heat" and points != 1:
        given = "none" if points is None else points
        raise InputError(f"style 'heat' shows one source point: give exactly one in points, not {given}")


def check_style_of_any_pair(style: str) -> None:
    """Raise if a style cannot be drawn of every pair of a list."""
    if style in STYLES and style not in OF_ANY_PAIR:
        raise InputError(
            f"style '{style}' needs points of one pair; for many choose {', '.join(OF_ANY_PAIR)}"
        )
    check_style(style, None, None)


def draw_style(
    match: Match,
    points: Points | None,
    style: str,
    truth: ArrayLike | None = None,
    threshold: float | None = None,
    names: Sequence[str] | None = None,
    min_confidence: float = 0.0,
) -> Image.Image:
    """Draw a match; see :meth:`dhpf.Match.draw`. Only the modules of that style are imported."""
    if names is not None and (points is None or len(names) != len(points)):
        raise InputError(f"{len(names)} names; wanted one for each point, and the points")
    # Annotators leave a few true locations outside the image: those are fine.
    locations = None if truth is None else as_points(truth, "true location")
    check_style(style, *(None if given is None else len(given) for given in (points, locations)))
    if threshold is not None:
        _check_threshold(threshold, style)
    if style == "truth" and points is not None and locations is not None:
        from .truth import draw_truth

        return draw_truth(match, points, locations, threshold)
    if style == "warp":
        from .spread import steering_points
        from .warp import STEERING, draw_warp

        return draw_warp(match, steering_points(match, STEERING) if points is None else points)
    if style == "flow":
        from .flow import draw_flow

        return draw_flow(match, points)
    if style == "heat" and points is not None:
        from .heat import draw_heat

        return draw_heat(match, points)
    from .lines import draw_lines, draw_points, labels_of

    shown = match.keypoints() if points is None else points
    if min_confidence > 0:
        sure = match.confidence_at(shown) >= min_confidence
        labels = labels_of(shown, names)  # numbers stay those of all points
        shown, names = shown[sure], [label for label, kept in zip(labels, sure, strict=True) if kept]
    draw = draw_points if style == "points" else draw_lines
    return draw(match, shown, names)


def _check_threshold(threshold: float, style: str) -> None:
    if style != "truth":
        raise InputError(f"style '{style}' has no threshold; choose style 'truth' or leave threshold out")
    if not 0 < threshold < float("inf"):
        raise InputError(f"threshold {threshold!r}: wanted pixels of the target, more than 0")
