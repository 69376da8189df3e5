"""A stand-in for a GPU: tensors that are held by the CPU, and refuse what a GPU would refuse.

An :class:`Elsewhere` reports another device. As on CUDA, it does not mix with tensors of the CPU, single
numbers and indices apart; its random numbers do not come from a generator of the CPU; NumPy does not see it.
``to``, ``cpu``, ``copy_`` and ``item`` cross. Within :func:`stand_in`, tensors that are made for
:data:`DEVICE` or moved there are such, and processes reduce no others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

DEVICE = torch.device("lazy", 0)  # needs no driver, and torch takes gradients on it in the thread that asks

aten: Any = torch.ops.aten
CROSSING = {aten._to_copy.default, aten.copy_.default}
INDEXING = {  # as on CUDA, indices may come from the CPU: they are the second argument
    aten.index.Tensor,
    aten.index_put.default,
    aten.index_put_.default,
    aten._index_put_impl_.default,
}


class WrongDeviceError(RuntimeError):
    """What CUDA would not do."""


class Elsewhere(Tensor):
    """A tensor on the device; its values are ``held``."""

    held: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: Tensor) -> Elsewhere:
        layout = {"strides": held.stride(), "storage_offset": held.storage_offset(), "dtype": held.dtype}
        made: Elsewhere = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, held.size(), **layout, device=DEVICE
        )
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


class _Made(TorchFunctionMode):
    """Lists to tensors and back, which torch does where nobody can look: by way of the CPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.tensor and _is_there(kwargs.get("device")):
            return func(*args, **kwargs | {"device": None}).to(DEVICE)
        if func in (Tensor.__getitem__, Tensor.__setitem__) and isinstance(args[1], (list, range)):
            args = (args[0], torch.tensor(args[1]), *args[2:])
        if func is Tensor.tolist:
            return func(args[0].cpu())
        return func(*args, **kwargs)


class _Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


@contextmanager
def stand_in() -> Iterator[torch.device]:
    """In this thread, the device is there."""
    with _Made(), _Mode():
        yield DEVICE


def in_stand_in(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function for another thread, where the device is there too."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with stand_in():
            return function(*args, **kwargs)

    return wrapped


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    leaves = tree_leaves((args, kwargs))
    elsewhere = [leaf for leaf in leaves if isinstance(leaf, Elsewhere)]
    made_there = _is_there(kwargs.get("device"))
    if not elsewhere and not made_there:
        if func.namespace == "c10d":
            raise WrongDeviceError(f"{func}: tensors of the CPU are reduced where the others are on {DEVICE}")
        return func(*args, **kwargs)
    _check(func, args, leaves)
    outer = {id(leaf.held): leaf for leaf in elsewhere}
    inner_args, inner_kwargs = tree_map(lambda x: x.held if isinstance(x, Elsewhere) else x, (args, kwargs))
    if made_there:
        inner_kwargs["device"] = torch.device("cpu")
    found = func(*inner_args, **inner_kwargs)
    if func is aten.copy_.default:
        return args[0]
    if kwargs.get("device") is not None and not made_there:
        return found  # for the CPU

    def wrap(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return outer[id(value)] if id(value) in outer else Elsewhere(value)

    return tree_map(wrap, found)


def _is_there(device: Any) -> bool:
    return device is not None and torch.device(device).type == DEVICE.type


def _check(func: Any, args: Any, leaves: list[Any]) -> None:
    if any(isinstance(leaf, torch.Generator) for leaf in leaves):
        raise WrongDeviceError(f"{func}: a generator of the CPU for a tensor on {DEVICE}")
    if func in CROSSING:
        return
    allowed: set[int] = set()
    if func in INDEXING and isinstance(args[0], Elsewhere):
        allowed = {id(index) for index in args[1]}
    for leaf in leaves:
        ours = not isinstance(leaf, Tensor) or isinstance(leaf, Elsewhere)
        if not ours and leaf.dim() > 0 and id(leaf) not in allowed:
            raise WrongDeviceError(f"{func}: a tensor of the CPU, {tuple(leaf.shape)}, with one on {DEVICE}")
