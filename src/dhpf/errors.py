"""The one exception that is meant for a person rather than for a debugger."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Something given by the user cannot be used.

    The message is one line: what was given, what is wanted, what to do. The command line prints it
    on stderr and exits with code 2; in Python it is an ordinary ``ValueError``.
    """


def unknown(kind: str, given: str, known: Iterable[str]) -> InputError:
    """The error for a name that is not known; it names the nearest that is, if one is near."""
    names = list(known)
    same = [name for name in names if name.rpartition("/")[2] == given]
    near = same or difflib.get_close_matches(given.lower(), names, n=1, cutoff=0.6)
    advice = f": did you mean '{near[0]}'? Known: " if near else "; known: "
    return InputError(f"unknown {kind} '{given}'{advice}{', '.join(names)}")
