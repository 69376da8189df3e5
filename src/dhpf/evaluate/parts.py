"""Finished pairs of a run of predictions, kept beside the output until all of them are there.

Each process has a file of its own: a first line that says which run it belongs to, then a line for each
finished pair. A process that is killed leaves at most one incomplete line, which is left out and overwritten
when the run goes on. Numbers are written so that reading gives the same bits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np

from ..errors import InputError
from .predictions import PairPrediction


@dataclass(frozen=True)
class Skip:
    """A pair that cannot be predicted, and why."""

    pair_id: str
    reason: str


Outcome: TypeAlias = "PairPrediction | Skip"


class Keep(Protocol):
    """Stores the outcome of the pair at that place of the split."""

    def __call__(self, index: int, outcome: Outcome) -> None: ...


class Parts:
    """The part files of one output.

    Parameters
    ----------
    out
        The output; the parts are ``OUT.part-0``, ``OUT.part-1``, ... beside it.
    run
        What the run is, as plain data; parts of a run with any other value are refused.
    rank
        Number of this process, which owns one of the files.
    """

    def __init__(self, out: Path, run: Mapping[str, Any], rank: int) -> None:
        self.out, self.run = out, json.loads(json.dumps(run))
        self.own = out.with_name(f"{out.name}.part-{rank}")

    def finished(self) -> dict[int, Outcome]:
        """Outcomes by place in the split, from the files of all processes."""
        found: dict[int, Outcome] = {}
        for path in self._files():
            found |= self._read(path)[0]
        return found

    @contextmanager
    def appending(self) -> Iterator[Keep]:
        """Go on with this process's file; what is kept survives the process at once."""
        whole = self._read(self.own)[1] if self.own.exists() else 0
        try:
            with self.own.open("r+b" if whole else "wb", buffering=0) as stream:
                stream.truncate(whole)
                stream.seek(whole)
                if not whole:
                    stream.write(_line(self.run))

                def keep(index: int, outcome: Outcome) -> None:
                    kind = "skip" if isinstance(outcome, Skip) else "pair"
                    stream.write(_line({"index": index, kind: asdict(outcome)}))

                yield keep
        except OSError as error:
            raise InputError(f"{self.own} cannot be written: {error.strerror or error}") from None

    def remove(self) -> None:
        """Delete the files of all processes."""
        for path in self._files():
            path.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        part = re.compile(re.escape(self.out.name) + r"\.part-\d+")
        return sorted(path for path in self.out.parent.iterdir() if part.fullmatch(path.name))

    def _read(self, path: Path) -> tuple[dict[int, Outcome], int]:
        """The outcomes in whole lines, and the length of those lines in bytes."""
        found: dict[int, Outcome] = {}
        length = 0
        *lines, _ = path.read_bytes().split(b"\n")  # the last one was cut off, or is empty
        for line in lines:
            try:
                content = json.loads(line)
                if length:
                    found[content["index"]] = _outcome(content)
            except (ValueError, KeyError, TypeError):
                break  # damaged; this and what follows is computed again
            if not length:
                self._check(content, path)
            length += len(line) + 1
        return found, length

    def _check(self, run: Mapping[str, Any], path: Path) -> None:
        changed = sorted(key for key in {*run, *self.run} if run.get(key) != self.run.get(key))
        if changed:
            names = ", ".join(changed)
            raise InputError(
                f"{path} holds a run with another {names}; remove it to start anew, or choose another --out"
            )


def _line(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, default=_listed).encode() + b"\n"


def _listed(value: Any) -> Any:
    """What JSON does not know: arrays."""
    return np.asarray(value).tolist()


def _outcome(content: Mapping[str, Any]) -> Outcome:
    if "skip" in content:
        return Skip(**content["skip"])
    fields = content["pair"]
    sizes = {name: tuple(fields[name]) for name in ("source_size", "target_size")}
    return PairPrediction(**(fields | sizes))
