"""Frozen dataclasses from plain data (TOML, JSON): typed, and an unknown key is an error that names the nearest."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, get_type_hints

from .errors import InputError

Settings = TypeVar("Settings")
WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def from_mapping(
    kind: type[Settings], content: Any, place: str, prefix: str = "", root: type[Any] | None = None
) -> Settings:
    """Build ``kind`` from nested dictionaries.

    Parameters
    ----------
    place
        What errors name as the origin.
    prefix, root
        Of a part: where it belongs, and in what.
    """
    if not isinstance(content, Mapping):
        what = prefix.rstrip(".") or "the content"
        raise InputError(f"{place}: {what} = {content!r}; wanted a table of settings")
    hints = get_type_hints(kind)
    values = {}
    for key, value in content.items():
        if key not in hints:
            raise _unknown_key(prefix + key, [prefix + name for name in hints], all_keys(root or kind), place)
        part = hints[key]
        if is_dataclass(part) and isinstance(part, type):
            values[key] = from_mapping(part, value, place, f"{prefix}{key}.", root or kind)
        else:
            values[key] = _typed(value, part, f"{place}: {prefix}{key}")
    try:
        return kind(**values)
    except InputError as error:
        raise InputError(f"{place}: {prefix}{error}") from None


def all_keys(kind: type[Any]) -> list[str]:
    """Every key, with its sections: ``loss.mu``."""
    hints = get_type_hints(kind)
    found = []
    for one in fields(kind):
        part = hints[one.name]
        nested = all_keys(part) if is_dataclass(part) and isinstance(part, type) else []
        found += [f"{one.name}.{name}" for name in nested] or [one.name]
    return found


def _unknown_key(given: str, here: list[str], known: list[str], place: str) -> InputError:
    """It names a key of the same name elsewhere, or the most similar one."""
    same = [key for key in known if key.rpartition(".")[2] == given.rpartition(".")[2]]
    near = difflib.get_close_matches(given.lower(), same or [*here, *known], n=1, cutoff=0.0 if same else 0.6)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return InputError(f"unknown key in {place} '{given}': {hint}Known: {', '.join(here)}")


def _typed(value: Any, wanted: Any, name: str) -> Any:
    """The value as the wanted type, or an error. A whole number may stand for a float, nothing else mixes."""
    if wanted in WORDS:
        if wanted is float and type(value) is int and abs(value) <= 2**53:
            return float(value)
        if type(value) is not wanted:
            raise InputError(f"{name} = {value!r}; wanted {WORDS[wanted]}")
        if wanted is float and not math.isfinite(value):
            raise InputError(f"{name} = {value!r}; wanted a finite number")
        return value
    element, any_number = wanted.__args__[0], wanted.__args__[-1] is Ellipsis
    fits = isinstance(value, (list, tuple)) and all(type(item) is element for item in value)
    if not fits or not (any_number or len(value) == len(wanted.__args__)):
        count = "a list of values" if any_number else f"{len(wanted.__args__)} values"
        raise InputError(f"{name} = {value!r}; wanted {count}, each {WORDS[element]}")
    return tuple(value)
