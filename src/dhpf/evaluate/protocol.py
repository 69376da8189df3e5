"""What exactly a PCK figure means: five named fields, and presets that others have used.

``docs/protocols.md`` tells where each choice comes from and what it changes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

from ..errors import InputError, unknown

ALPHAS = (0.05, 0.1, 0.15)
DIRECTIONS = ("source-to-target", "target-to-source")
CHOICES = {
    "threshold": ("image", "box", "keypoints", "legacy-padded"),
    "average": ("image", "point"),
    "compare": ("<=", "<"),
    "direction": DIRECTIONS,
}
SQUARE = re.compile(r"square([1-9]\d{0,3})")


@dataclass(frozen=True)
class Protocol:
    """A point is right if its distance to the truth ``compare`` alpha times the threshold's length."""

    threshold: str
    """Longer side of the target ``image``, of its object's ``box`` or of its ``keypoints``' extent; or
    ``legacy-padded``: that extent with one more point at (-1, -1)."""
    frame: str
    """Where lengths are measured: ``original`` pixels, or ``square240`` (any side): both images resized to
    that square, as for the network."""
    average: str = "image"
    """Over ``image`` pairs (each its own percentage, then their mean), or over every ``point`` at once."""
    compare: str = "<="
    """``<=`` or ``<``."""
    direction: str = DIRECTIONS[0]
    """Points go from the list's first image to its second (``source-to-target``), or back."""
    name: str = "custom"
    """Of the preset; two protocols are the same if their fingerprints are."""

    def __post_init__(self) -> None:
        for field, allowed in CHOICES.items():
            if getattr(self, field) not in allowed:
                raise unknown(f"protocol field {field}", getattr(self, field), allowed)
        if self.frame != "original" and not SQUARE.fullmatch(self.frame):
            raise unknown("protocol field frame", self.frame, ("original", "square240"))

    @property
    def side(self) -> int | None:
        """Side of the square frame in pixels; None: original pixels."""
        square = SQUARE.fullmatch(self.frame)
        return int(square[1]) if square else None

    def described(self, kind: str = "keypoints") -> dict[str, str]:
        """The fields that matter for ``keypoints``, or for ``polygons`` (compared as masks)."""
        names = FIELDS if kind == "keypoints" else ("frame", "direction")
        return {name: getattr(self, name) for name in names}

    def fingerprint(self, kind: str = "keypoints") -> str:
        """One line that goes with every figure."""
        metric = "pck" if kind == "keypoints" else "masks"
        return f"{metric}[{' '.join(f'{name}={value}' for name, value in self.described(kind).items())}]"


FIELDS = tuple(each.name for each in fields(Protocol) if each.name != "name")


class Preset(NamedTuple):
    """A protocol; its threshold depends on the data set."""

    summary: str
    thresholds: dict[str, str]
    protocol: Protocol


PAPER = {
    "pf-pascal": "image",
    "pf-willow": "keypoints",
    "spair-71k": "box",
    "caltech-101": "image",
    "coco": "box",
}
PADDED = PAPER | {"pf-willow": "legacy-padded"}
IN_SQUARE, ORIGINAL = Protocol("image", "square240"), Protocol("image", "original")

PRESETS = {
    "dhpf": Preset("the DHPF paper's choices, with the intended threshold on PF-WILLOW", PAPER, IN_SQUARE),
    "dhpf-legacy": Preset(
        "what the published DHPF code computes, padded PF-WILLOW keypoints included", PADDED, IN_SQUARE
    ),
    "original": Preset("the paper's thresholds and average, in original pixels (as HPF)", PAPER, ORIGINAL),
    "per-point": Preset(
        "every keypoint counts the same, in original pixels (SPair-71k in later papers)",
        PAPER,
        replace(ORIGINAL, average="point"),
    ),
    "nc-net": Preset(
        "SCNet's and NC-Net's PF-PASCAL: a 224-px square, from the list's second image to the first",
        {"pf-pascal": "image"},
        Protocol("image", "square224", direction=DIRECTIONS[1]),
    ),
}
DEFAULT_PRESET = "dhpf"


def alpha_names(alphas: Sequence[float]) -> tuple[str, ...]:
    """How the alphas of PCK are written, if they are what they must be."""
    names = tuple(f"{alpha:g}" for alpha in alphas)
    if not names or not all(0 < alpha < math.inf for alpha in alphas) or len(set(names)) < len(names):
        raise InputError(f"alphas {list(alphas)}; wanted: one or more numbers above 0, each once, e.g. 0.1")
    return names


def protocol_for(dataset: str, preset: str = DEFAULT_PRESET, changes: Iterable[str] = ()) -> Protocol:
    """The preset for a data set, with single fields changed.

    Parameters
    ----------
    dataset
        ``pf-pascal``, ``pf-willow``, ``caltech-101`` or ``spair-71k``; any other name if ``changes`` sets
        the threshold.
    changes
        ``field=value`` each, e.g. ``average=point`` or ``compare=<``.
    """
    if preset not in PRESETS:
        raise unknown("protocol", preset, PRESETS)
    _, thresholds, protocol = PRESETS[preset]
    changed = {}
    for change in changes:
        field, equals, value = change.partition("=")
        if not equals:
            raise InputError(f"protocol change {change!r}; wanted: field=value, e.g. average=point")
        if field not in FIELDS:
            raise unknown("protocol field", field, FIELDS)
        changed[field] = value
    if dataset not in thresholds and "threshold" not in changed:
        raise InputError(
            f"protocol {preset!r} sets no threshold for data set {dataset!r}; "
            f"choose one: --set threshold={'|'.join(CHOICES['threshold'])}"
        )
    name = "custom" if changed else preset
    return replace(protocol, **{"threshold": thresholds.get(dataset, ""), **changed}, name=name)
