"""Several processes under torchrun: which one is this, and are the others done?"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

from .errors import InputError

if TYPE_CHECKING:
    from torch import Tensor


def rank_and_world_size() -> tuple[int, int]:
    """Rank of this process and number of all processes, as torchrun tells them; 0 and 1 without it."""
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        return 0, 1
    rank, world = _number("RANK"), _number("WORLD_SIZE")
    if rank >= world:
        raise InputError(f"RANK={rank} WORLD_SIZE={world}: wanted numbers as torchrun sets them")
    return rank, world


def processes_here() -> int:
    """Number of processes that share this machine, as torchrun tells it; 1 without it."""
    return _number("LOCAL_WORLD_SIZE", least=1) if "LOCAL_WORLD_SIZE" in os.environ else 1


def _number(variable: str, least: int = 0) -> int:
    text = os.environ[variable]
    if not (text.isascii() and text.isdecimal()) or int(text) < least:
        raise InputError(f"{variable}={text}: wanted numbers as torchrun sets them; or unset it")
    return int(text)


def wait_for_others(last: Callable[[], None] | None = None) -> None:
    """Under torchrun, return when all processes are done: it stops all once one has reported failed pairs.

    Parameters
    ----------
    last
        What the first process does when all are done, while the others wait.
    """
    from torch import distributed

    with in_contact() as several:
        if several:
            distributed.barrier()
        if last is not None and rank_and_world_size()[0] == 0:
            last()
        if several:
            distributed.barrier()


@contextmanager
def in_contact() -> Iterator[bool]:
    """Under torchrun, in contact with the other processes, and true; processes can meet but once in a run, so
    whoever waits for others several times does all of it in here."""
    from torch import distributed

    if not (distributed.is_available() and distributed.is_torchelastic_launched()):
        yield False
        return
    if distributed.is_initialized():
        yield True
        return
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)  # no Python code would run while one waits
    distributed.init_process_group("gloo", timeout=timedelta(days=30))
    yield True
    distributed.destroy_process_group()
    signal.signal(signal.SIGTERM, before)


def leave(code: str | int | None = 0, *, at_once: bool = False) -> NoReturn:
    """End this process; under torchrun, or if asked to, without unloading libraries.

    Threads that talked to other processes may still hold tensors after the process group is destroyed. If one
    lets go of them while Python is taken down, it aborts a process whose work is done.
    """
    if not at_once and "TORCHELASTIC_RUN_ID" not in os.environ:
        sys.exit(code)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def sum_over_processes(values: Tensor) -> Tensor:
    """The sum over all processes of a training, with its gradient; the values themselves in a single one."""
    from torch import distributed

    if not (distributed.is_available() and distributed.is_initialized()):
        return values
    total: Tensor = _summing().apply(values)
    return total


@cache
def _summing() -> Any:
    """The sum as a function with a gradient: what all processes make of the total adds up, too."""
    import torch

    def reduced(values: Tensor) -> Tensor:
        total = values.detach().clone(memory_format=torch.contiguous_format)
        torch.distributed.all_reduce(total)
        return total

    class Sum(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, values: Tensor) -> Tensor:
            return reduced(values)

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Tensor:
            return reduced(gradients[0])

    return Sum
