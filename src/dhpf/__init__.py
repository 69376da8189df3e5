"""Semantic correspondence by Dynamic Hyperpixel Flow: which point of one photo belongs to which of another.

>>> import dhpf
>>> match = dhpf.load().match(dhpf.sample("cheetah"), dhpf.sample("cheetah_cub"))
>>> match.target.size
(465, 480)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .annotate.annotations import Annotations
    from .annotate.run import annotate
    from .errors import InputError
    from .match import Match
    from .matcher import ImageFeatures, Matcher, load
    from .samples import sample

__version__ = "0.1.0"
__all__ = ["Annotations", "ImageFeatures", "InputError", "Match", "Matcher", "annotate", "load", "sample"]

_HOME = {
    "Annotations": "annotate.annotations",
    "annotate": "annotate.run",
    "ImageFeatures": "matcher",
    "InputError": "errors",
    "Match": "match",
    "Matcher": "matcher",
    "load": "matcher",
    "sample": "samples",
}


def __getattr__(name: str) -> Any:
    """Import the public names at first use: ``dhpf --help`` must not wait for torch."""
    if name in _HOME:
        return getattr(import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"module 'dhpf' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
