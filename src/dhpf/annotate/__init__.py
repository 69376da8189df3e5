"""Carry the labels of a few annotated photos to all others: ``dhpf.annotate(references, photos)``.

The package can be called: Python gives ``dhpf.annotate`` to it as soon as one of its modules is imported.
"""

from __future__ import annotations

import sys
from types import ModuleType

from .run import annotate


class _Callable(ModuleType):
    __call__ = staticmethod(annotate)


sys.modules[__name__].__class__ = _Callable
