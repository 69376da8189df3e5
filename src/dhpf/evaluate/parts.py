"""Finished pairs of a run of predictions, kept beside the output until all of them are there.

Each process has a file of its own: a first line that says which run it belongs to, then a line for each
finished pair. A process that is killed leaves at most one incomplete line, which is left out and overwritten
when the run goes on. Numbers are written so that reading gives the same bits.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from io import FileIO
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ..errors import InputError
from ..files import check_writable
from .predictions import PairPrediction

if sys.platform != "win32":
    import fcntl

Outcome: TypeAlias = "PairPrediction | str"  # of a pair: its prediction, or why there is none


class Parts:
    """The part files of one output: ``OUT.part-0``, ``OUT.part-1``, ... for the processes 0, 1, ...

    ``run`` says what the run is, as plain data; parts of a run with any other value are refused.
    """

    def __init__(self, out: Path, run: Mapping[str, Any], rank: int) -> None:
        self.out, self.run = out, json.loads(json.dumps(run))
        self.own = out.with_name(f"{out.name}.part-{rank}")

    def finished(self) -> dict[int, Outcome]:
        """Outcomes by index in the split, from the files of all processes."""
        return {index: outcome for path in self._files() for index, outcome in self._read(path)[0].items()}

    @contextmanager
    def appending(self) -> Iterator[Callable[[int, Outcome], None]]:
        """Go on with this process's file; what is kept survives the process at once."""
        check_writable(self.own)
        try:
            with self.own.open("ab", buffering=0) as stream:
                self._lock(stream)
                whole = self._read(self.own)[1]
                stream.truncate(whole)
                if not whole:
                    stream.write(_line(self.run))

                def keep(index: int, outcome: Outcome) -> None:
                    content = outcome if isinstance(outcome, str) else asdict(outcome)
                    stream.write(_line({"index": index, "outcome": content}))

                yield keep
        except OSError as error:
            raise InputError(f"{self.own} cannot be written: {error.strerror or error}") from None

    def _lock(self, stream: FileIO) -> None:
        """Keep other runs out for as long as the file is open."""
        try:
            if sys.platform != "win32":
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"another run writes {self.own}; wait for it, or choose another --out") from None
        except OSError:
            pass  # some file systems have no locks

    def remove(self) -> None:
        """Delete the files of all processes."""
        for path in self._files():
            path.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        part = re.compile(re.escape(self.out.name) + r"\.part-\d+")
        return sorted(
            path for path in self.out.parent.iterdir() if part.fullmatch(path.name) and path.is_file()
        )

    def _read(self, path: Path) -> tuple[dict[int, Outcome], int]:
        """The outcomes in whole lines, and the length of those lines in bytes."""
        found: dict[int, Outcome] = {}
        length = 0
        *lines, _ = path.read_bytes().split(b"\n")  # the last one was cut off, or is empty
        for line in lines:
            try:
                content = json.loads(line)
                if length:
                    found[int(content["index"])] = self._outcome(content["outcome"])
            except (ValueError, KeyError, TypeError, RecursionError):
                break  # damaged; this and what follows is computed again
            if not length:
                self._check(content, path)
            length += len(line) + 1
        return found, length

    def _check(self, run: Any, path: Path) -> None:
        given = run if isinstance(run, dict) else {}
        changed = sorted(key for key in {*given, *self.run} if given.get(key) != self.run.get(key))
        if changed:
            names = ", ".join(changed)
            raise InputError(
                f"{path} holds a run with another {names}; remove it to start anew, or choose another --out"
            )

    def _outcome(self, content: Any) -> Outcome:
        if isinstance(content, str):
            return content
        pair = PairPrediction(**content)
        pair.check(self.run["kind"])
        return pair


def _line(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, default=lambda array: np.asarray(array).tolist()).encode() + b"\n"
