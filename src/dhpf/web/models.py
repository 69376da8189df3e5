"""The models that can be picked: loaded when first asked for, shared by all sessions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..backbones.weights import BACKBONES
from ..errors import unknown
from ..matcher import Matcher, load
from ..zoo import DEFAULT_MODEL, models


class Models:
    """The bundled models, and before them those that were named at the start."""

    def __init__(
        self,
        named: Sequence[str] = (),
        size: tuple[int, int] | int | None = None,
        device: str = "cpu",
        backbone: Path | None = None,
        loader: Callable[..., Matcher] = load,
    ) -> None:
        """``backbone`` is a local file with the weights of the named models; the others have theirs.

        ``loader`` loads them, called as :func:`dhpf.load` is.
        """
        bundled = [card.name for card in models().values() if BACKBONES[card.backbone].bundled]
        self.names = tuple(dict.fromkeys((*named, *bundled)))
        self.default = named[0] if named else DEFAULT_MODEL
        self._size, self._device, self._load = size, device, loader
        self._backbones = dict.fromkeys(named, backbone)
        self._loaded: dict[str, Matcher] = {}

    def check(self, name: object) -> str:
        """The name, if it is one of these."""
        if not isinstance(name, str) or name not in self.names:
            raise unknown("model", str(name)[:80], self.names)
        return name

    def matcher(self, name: str) -> Matcher:
        """Load a model, or return it as loaded before. Only one thread at a time may call this."""
        if name not in self._loaded:
            self._loaded[name] = self._load(name, self._size, self._device, self._backbones.get(name))
        return self._loaded[name]

    def described(self) -> list[dict[str, Any]]:
        """For the page: name, label, description, and which one is picked at first."""
        return [
            {
                "name": name,
                "label": name if name in models() else Path(name).name,
                "description": models()[name].summary if name in models() else "from a head file",
                "default": name == self.default,
            }
            for name in self.names
        ]
