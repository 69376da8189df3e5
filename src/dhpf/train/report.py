"""What a run shows: a progress bar with loss terms, a line an epoch, TensorBoard logs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..progress import plain_console

SHOWN = ("match", "select", "pck", "layers")


class Reporter:
    """Shows and logs; only the first process does.

    TensorBoard logs are written if the package ``tensorboard`` is installed (``pip install 'dhpf[train]'``).
    """

    def __init__(self, folder: Path, steps_done: int, first: bool) -> None:
        self.folder, self.steps_done, self.first = folder, steps_done, first
        self._stack = ExitStack()
        self._board: Any = None
        self._bar: Progress | None = None

    def __enter__(self) -> Reporter:
        if not self.first:
            return self
        console = plain_console(stderr=True)
        if console.is_terminal:
            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
            )
            self._bar = self._stack.enter_context(Progress(*columns, console=console))
            self._task = self._bar.add_task("")
        self._console = console
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            self.note("no TensorBoard logs: pip install 'dhpf[train]'")
        else:
            # What a killed run logged beyond its last checkpoint is replaced.
            board = SummaryWriter(str(self.folder / "tensorboard"), purge_step=self.steps_done)
            self._stack.callback(board.close)
            self._board = board
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def note(self, line: str) -> None:
        """Something to know about the run."""
        if self.first:
            self._console.print(line, soft_wrap=True)

    def begin(self, epoch: int, epochs: int, steps: int, done: int) -> None:
        """A new epoch, or the rest of one."""
        self._title = f"epoch {epoch + 1}/{epochs}"
        if self._bar is not None:
            self._bar.reset(self._task, total=steps, completed=done, description=self._title)

    def step(self, steps_done: int, terms: Mapping[str, float], means: Mapping[str, float]) -> None:
        """One step's terms, and the means of the epoch so far."""
        if self._board is not None:
            self._log("train", terms, steps_done)
        if self._bar is not None:
            shown = "  ".join(f"{key} {means[key]:.3g}" for key in SHOWN if key in means)
            self._bar.update(self._task, advance=1, description=f"{self._title}  {shown}")

    def end(self, steps_done: int, record: Mapping[str, float], better: bool) -> None:
        """An epoch with its validation."""
        if not self.first:
            return
        if self._board is not None:
            self._log("epoch", record, steps_done)
            self._board.flush()
        values = "  ".join(f"{k} {v:.4g}" for k, v in record.items() if k not in ("epoch", "rate"))
        self.note(f"{self._title}  {values}{'  best' if better else ''}")

    def _log(self, group: str, values: Mapping[str, float], steps_done: int) -> None:
        for key, value in values.items():
            self._board.add_scalar(f"{group}/{key.replace(' ', '_')}", value, steps_done)
