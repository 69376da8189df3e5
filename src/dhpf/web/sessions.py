"""Who has which photos: in memory only, apart from each other, bounded in number, age and size."""

from __future__ import annotations

import io
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from PIL import Image

from ..match import Match
from .limits import Limits

Side: TypeAlias = Literal["source", "target"]

VIEW_SIDE = 1280  # pixels of the longer side of what is shown; points stay in pixels of the original photo


@dataclass(frozen=True, eq=False)
class Photo:
    """A photo as it was given, and as it is shown."""

    name: str
    original: Image.Image
    view: Image.Image
    jpeg: bytes = field(repr=False)  # the view, ready to be sent
    id: str = field(default_factory=lambda: secrets.token_urlsafe(9))

    @property
    def nbytes(self) -> int:
        """Memory held."""
        images = {id(image): 3 * image.width * image.height for image in (self.original, self.view)}
        return sum(images.values()) + len(self.jpeg)


def prepare(name: str, original: Image.Image) -> Photo:
    """Make the smaller picture that is shown."""
    view = original
    if max(original.size) > VIEW_SIDE:
        view = original.copy()
        view.thumbnail((VIEW_SIDE, VIEW_SIDE), Image.Resampling.LANCZOS)
    stream = io.BytesIO()
    view.save(stream, "JPEG", quality=90)
    return Photo(name, original, view, stream.getvalue())


@dataclass(frozen=True, eq=False)
class Result:
    """A match of the original photos, and the same of the smaller ones, to warp what is shown."""

    match: Match
    view: Match
    layer_count: int  # of the network, chosen or not
    id: str = field(default_factory=lambda: secrets.token_urlsafe(9))

    @classmethod
    def of(cls, match: Match, source: Photo, target: Photo, layer_count: int) -> Result:
        """A match knows places by their share of the photo's size, so it fits the smaller photos as well."""
        return cls(match, replace(match, source=source.view, target=target.view), layer_count)

    @property
    def nbytes(self) -> int:
        """Memory held beside the photos, each array counted once."""
        values = (*vars(self.match).values(), *vars(self.view).values())
        return sum({id(value): getattr(value, "nbytes", 0) for value in values}.values())


@dataclass(eq=False)
class Session:
    """One person's photos and their match."""

    used: float
    photos: dict[Side, Photo] = field(default_factory=dict)
    result: Result | None = None

    def put(self, side: Side, photo: Photo) -> None:
        """Replace a photo; the match was of the one before."""
        self.photos[side] = photo
        self.result = None

    @property
    def nbytes(self) -> int:
        """Memory held."""
        photos = sum(photo.nbytes for photo in self.photos.values())
        return photos + (self.result.nbytes if self.result else 0)


class Sessions:
    """All sessions, the least recently used first. Only the event loop's thread uses this: no locks."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._all: OrderedDict[str, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._all)

    @property
    def nbytes(self) -> int:
        """Memory held by all sessions."""
        return sum(session.nbytes for session in self._all.values())

    def find(self, key: str | None) -> Session | None:
        """The session of that key, if it is still kept; it counts as used."""
        self.sweep()
        if key is None or key not in self._all:
            return None
        session = self._all[key]
        session.used = self._clock()
        self._all.move_to_end(key)
        return session

    def start(self) -> tuple[str, Session]:
        """A new session and its key, which nobody can guess."""
        key, session = secrets.token_urlsafe(32), Session(self._clock())
        self._all[key] = session
        self.sweep()
        return key, session

    def drop(self, key: str | None) -> None:
        """Forget a session."""
        if key is not None:
            self._all.pop(key, None)

    def sweep(self) -> None:
        """Forget what is too old, then the least recently used until the rest is few and small enough."""
        oldest = self._clock() - self._limits.session_seconds
        while self._all and next(iter(self._all.values())).used < oldest:
            self._all.popitem(last=False)
        too_much = self.nbytes - self._limits.kept_bytes
        while len(self._all) > self._limits.sessions or (too_much > 0 and len(self._all) > 1):
            _, dropped = self._all.popitem(last=False)
            too_much -= dropped.nbytes
