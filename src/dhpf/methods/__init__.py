"""One file a system, on the interfaces of ``base.py``; and how to find them by name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from ..errors import unknown
from .base import Method

METHODS: Mapping[str, str] = {  # module: class
    "dhpf": "DHPF",
    "hpf": "HPF",
    "nearest": "Nearest",
    "ncnet": "NCNet",
    "dccnet": "DCCNet",
    "sfnet": "SFNet",
    "cnngeo": "CNNGeo",
    "a2net": "A2Net",
    "weakalign": "WeakAlign",
    "rtns": "RTNs",
    "proposal_flow": "ProposalFlow",
    "scnet": "SCNet",
}


def find_method(name: str) -> type[Method]:
    """The class of a method."""
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    method: type[Method] = getattr(import_module(f".{name}", __package__), METHODS[name])
    return method
