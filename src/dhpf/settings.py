"""Frozen dataclasses from plain data (TOML, JSON): typed, and strict about keys."""

from __future__ import annotations

import difflib
import math
import reprlib
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from .errors import InputError

Settings = TypeVar("Settings")
WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def from_mapping(
    kind: type[Settings], content: Any, place: str, prefix: str = "", root: type[Any] | None = None
) -> Settings:
    """Build ``kind`` from nested dictionaries.

    Fields may be booleans, numbers, text, tuples of these, dictionaries, dataclasses of such fields, and
    optional ones of all these.

    Parameters
    ----------
    place
        What errors name as the origin.
    prefix, root
        Of a part: where it belongs, and in what.
    """
    if not isinstance(content, Mapping):
        what = prefix.rstrip(".") or "the content"
        raise InputError(f"{place}: {what} = {reprlib.repr(content)}; wanted a table of settings")
    hints = get_type_hints(kind)
    values = {}
    for key, value in content.items():
        if key not in hints:
            raise _unknown_key(prefix + key, [prefix + name for name in hints], all_keys(root or kind), place)
        values[key] = _typed(value, hints[key], place, prefix + key, root or kind)
    for one in fields(kind):  # type: ignore[arg-type]
        if one.name not in values and one.default is MISSING and one.default_factory is MISSING:
            raise InputError(f"{place}: {prefix}{one.name} is missing")
    try:
        return kind(**values)
    except InputError as error:
        raise InputError(f"{place}: {prefix}{error}") from None


def all_keys(kind: type[Any]) -> list[str]:
    """Every key, with its sections: ``loss.mu``."""
    hints = get_type_hints(kind)
    found = []
    for one in fields(kind):
        hint = hints[one.name]
        parts = [part for part in (hint, *get_args(hint)) if isinstance(part, type) and is_dataclass(part)]
        found += [f"{one.name}.{key}" for part in parts for key in all_keys(part)] or [one.name]
    return found


def _unknown_key(given: str, here: list[str], known: list[str], place: str) -> InputError:
    """It names a key of the same name elsewhere, or the most similar one."""
    same = [key for key in known if key.rpartition(".")[2] == given.rpartition(".")[2]]
    near = difflib.get_close_matches(given.lower(), same or [*here, *known], n=1, cutoff=0.0 if same else 0.6)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return InputError(f"unknown key in {place} '{given[:80]}': {hint}Known: {', '.join(here)}")


def _typed(value: Any, wanted: Any, place: str, key: str, root: type[Any]) -> Any:
    """The value as the wanted type, or an error. A whole number may stand for a float, nothing else mixes."""
    given, arguments = f"{place}: {key} = {reprlib.repr(value)}", get_args(wanted)
    if wanted is Any or (value is None and NoneType in arguments):
        return value
    if NoneType in arguments:
        return _typed(value, arguments[0], place, key, root)
    if isinstance(wanted, type) and is_dataclass(wanted):
        return from_mapping(wanted, value, place, f"{key}.", root)
    if wanted in WORDS:
        if wanted is float and type(value) is int and abs(value) <= 2**53:
            return float(value)
        if type(value) is not wanted:
            raise InputError(f"{given}; wanted {WORDS[wanted]}")
        if wanted is float and not math.isfinite(value):
            raise InputError(f"{given}; wanted a finite number")
        return value
    if get_origin(wanted) is Mapping:
        if not isinstance(value, Mapping):
            raise InputError(f"{given}; wanted a table")
        return {name: _typed(one, arguments[1], place, f"{key}.{name}", root) for name, one in value.items()}
    element, any_number = arguments[0], arguments[-1] is Ellipsis
    fits = isinstance(value, (list, tuple)) and all(type(item) is element for item in value)
    if not fits or not (any_number or len(value) == len(arguments)):
        count = "a list of values" if any_number else f"{len(arguments)} values"
        raise InputError(f"{given}; wanted {count}, each {WORDS[element]}")
    return tuple(value)
