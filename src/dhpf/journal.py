"""What a run has finished, on the disc: a line a piece, so that a killed run goes on where it was.

A process that is killed leaves at most one incomplete line, which is left out and overwritten when the run
goes on. Numbers are written so that reading gives the same bits.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Generic, TypeVar

from .errors import InputError

Piece = TypeVar("Piece")


class Lines:
    """A file that lines of JSON are added to; locked as long as it is open.

    Parameters
    ----------
    in_use
        What to say if another process has it open.
    durable
        Have each line on the disc before it counts, so that a power cut loses none.
    """

    def __init__(self, path: Path, in_use: str, durable: bool = False) -> None:
        self.path, self.durable = path, durable
        try:
            self._stream = path.open("ab", buffering=0)  # or a line that failed would be tried again later
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror}") from None
        try:
            with suppress(ImportError):
                import fcntl

                fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise InputError(in_use) from None
        except OSError:
            pass  # some file systems have no locks

    def keep(self, length: int) -> None:
        """Drop what lies beyond so many bytes."""
        self._stream.truncate(length)

    def add(self, content: Any) -> None:
        """Write a line, whole or not at all."""
        left = json.dumps(content, default=lambda array: array.tolist()).encode() + b"\n"
        length = self.path.stat().st_size
        try:
            while left:
                left = left[self._stream.write(left) :]
            if self.durable:
                os.fsync(self._stream.fileno())
        except OSError as error:
            self._stream.truncate(length)  # half a line would spoil the next one
            reason = error.strerror or error
            raise InputError(f"cannot write {self.path}: {reason}; what came last is not kept") from None

    def close(self) -> None:
        """Let others write."""
        self._stream.close()


def whole_lines(path: Path) -> list[bytes]:
    """The lines of a file without their ends, but for a last one that was cut off."""
    return path.read_bytes().split(b"\n")[:-1]


class Journal(Generic[Piece]):
    """The finished pieces of a run, in files ``STEM-0``, ``STEM-1``, ... of the processes 0, 1, ...

    Parameters
    ----------
    run
        What results depend on, the first line of each file: what was finished with anything else is refused.
    piece
        Makes a piece of what was added, or raises if it is damaged.
    """

    def __init__(self, stem: Path, run: Mapping[str, Any], rank: int, piece: Callable[[Any], Piece]) -> None:
        self.stem, self.run, self.piece = stem, json.loads(json.dumps(run)), piece
        self.own = stem.with_name(f"{stem.name}-{rank}")
        self.times = 0  # that the run was begun or resumed before

    def finished(self) -> list[Piece]:
        """What all processes have finished until now; of a piece that is there twice, the later is last."""
        found = [numbered for path in self._files() for numbered in self._read(path)[0]]
        found.sort(key=lambda numbered: numbered[0])
        self.times = found[-1][0] if found else 0
        return [piece for _, piece in found]

    def begun(self) -> bool:
        """Whether any process has a file of this run."""
        return any(self._read(path)[1] for path in self._files())

    @contextmanager
    def appending(self) -> Iterator[Callable[[Mapping[str, Any]], None]]:
        """Go on with this process's file, by a function that adds to it what survives the process at once."""
        time = self.times + 1
        lines = Lines(self.own, f"another run writes {self.own}; wait for it, or choose another --out")
        try:
            length = self._read(self.own)[1]
            lines.keep(length)
            if not length:
                lines.add(self.run)
            yield lambda content: lines.add({"time": time, **content})
        finally:
            lines.close()

    def remove(self) -> None:
        """Delete the files of all processes."""
        for path in self._files():
            path.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        part = re.compile(re.escape(self.stem.name) + r"-\d+")
        files = (path for path in self.stem.parent.iterdir() if part.fullmatch(path.name))
        return sorted(path for path in files if path.is_file())

    def _read(self, path: Path) -> tuple[list[tuple[int, Piece]], int]:
        """The pieces in whole lines, each with the time that it is of, and the length of all in bytes."""
        found: list[tuple[int, Piece]] = []
        length = 0
        for line in whole_lines(path):
            try:
                content = json.loads(line)
                if length:
                    found.append((int(content["time"]), self.piece(content)))
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
                f"{path} holds a run with other settings ({names}); "
                "remove it to start anew, or choose another --out"
            )
