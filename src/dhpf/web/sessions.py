"""Who has which photos: in memory only, apart from each other, bounded in number, age and size."""

from __future__ import annotations

import io
import secrets
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from PIL import Image, ImageOps
from starlette.exceptions import HTTPException

from ..errors import InputError
from ..match import Match
from .limits import Limits

Side: TypeAlias = Literal["source", "target"]
SIDES: tuple[Side, Side] = ("source", "target")

VIEW_SIDE = 1280  # pixels of the longer side of what is shown; points stay in pixels of the original photo
PIXEL_BYTES = 4  # what Pillow takes for a pixel of RGB


def new_id() -> str:
    """A name for a photo or a match, which nobody can guess."""
    return secrets.token_urlsafe(9)


@dataclass(frozen=True, eq=False)
class Photo:
    """A photo as it was given, and as it is shown."""

    name: str
    original: Image.Image
    view: Image.Image
    jpeg: bytes = field(repr=False)  # the view, ready to be sent
    id: str = field(default_factory=new_id)

    @property
    def nbytes(self) -> int:
        """Memory held."""
        images = {id(image): PIXEL_BYTES * image.width * image.height for image in (self.original, self.view)}
        return sum(images.values()) + len(self.jpeg)

    def described(self) -> dict[str, Any]:
        """For the page."""
        width, height = self.original.size
        return {"id": self.id, "name": self.name, "width": width, "height": height}


def prepare(name: str, original: Image.Image) -> Photo:
    """Make the smaller picture that is shown."""
    view, most = original, (VIEW_SIDE, VIEW_SIDE)
    if max(original.size) > VIEW_SIDE:
        view = ImageOps.contain(original, most, Image.Resampling.LANCZOS)
    return Photo(name, original, view, encoded(view, "JPEG", quality=90))


def encoded(picture: Image.Image, kind: str, **options: int) -> bytes:
    """The bytes of a picture's file."""
    stream = io.BytesIO()
    picture.save(stream, kind, **options)
    return stream.getvalue()


@dataclass(frozen=True, eq=False)
class Result:
    """A match of the original photos, and the same of the smaller ones, to warp what is shown."""

    match: Match
    view: Match
    layer_count: int  # of the network, chosen or not
    reverse: Match | None = None  # from the target to the source, once it was asked for
    id: str = field(default_factory=new_id)

    @classmethod
    def of(cls, match: Match, source: Photo, target: Photo, layer_count: int) -> Result:
        """A match knows locations as fractions of the photo's size, so it fits the smaller photos as well."""
        originals = replace(match, source=source.original, target=target.original)  # not copies of these
        return cls(originals, replace(match, source=source.view, target=target.view), layer_count)

    @property
    def nbytes(self) -> int:
        """Memory held beside the photos, each array counted once."""
        matches = [match for match in (self.match, self.view, self.reverse) if match is not None]
        values = [value for match in matches for value in vars(match).values()]
        return sum({id(value): getattr(value, "nbytes", 0) for value in values}.values())

    def described(self) -> dict[str, Any]:
        """For the page."""
        known = self.match.to_dict([])
        told = ("model", "input_size", "layers", "layer_probability")
        shown = {key: known[key] for key in known if key in told}
        return {"match": self.id, "layer_count": self.layer_count, "has_heat": self.has_heat, **shown}

    @property
    def has_heat(self) -> bool:
        """Whether the model keeps scores of single matches."""
        return self.match.match_scores is not None

    def match_for(self, view: str) -> Match:
        """The match, if there is anything to show in a view."""
        if view == "heat" and not self.has_heat:
            raise InputError(f"{self.match.model} keeps no scores for a heat map; choose another view")
        return self.match


@dataclass(eq=False)
class Session:
    """One person's photos and their match."""

    client: str
    used: float
    photos: dict[Side, Photo] = field(default_factory=dict)
    result: Result | None = None

    def put(self, photos: dict[Side, Photo]) -> None:
        """Replace photos; the match was of those before."""
        self.photos |= photos
        self.result = None

    def pair(self, ids: Sequence[object]) -> tuple[Photo, Photo]:
        """The photos with these ids, in any order, if they are still kept."""
        kept = {photo.id: photo for photo in self.photos.values()}
        source, target = (kept.get(str(each)) for each in ids)
        if source is None or target is None:
            raise HTTPException(409, "these photos are no longer kept; choose both again")
        return source, target

    def match(self, match: str) -> Result:
        """The match with this id, if it is still kept."""
        if self.result is None or self.result.id != match:
            raise HTTPException(409, "this match is no longer kept; match the photos again")
        return self.result

    def forget(self) -> None:
        """Let the photos go, even while a request of this session waits."""
        self.photos, self.result = {}, None

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
        self._all: dict[str, Session] = {}

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
        session = self._all[key] = self._all.pop(key)
        session.used = self._clock()
        return session

    def start(self, client: str) -> tuple[str, Session]:
        """A new session and its key, which nobody can guess."""
        key, session = secrets.token_urlsafe(32), Session(client, self._clock())
        self._all[key] = session
        self.sweep()
        return key, session

    def drop(self, key: str | None) -> None:
        """Forget a session."""
        if session := self._all.pop(key or "", None):
            session.forget()

    def sweep(self) -> None:
        """Forget what is too old, then one by one until the rest is few and small enough."""
        oldest = self._clock() - self._limits.session_seconds
        for key in [key for key, session in self._all.items() if session.used < oldest]:
            self.drop(key)
        while len(self._all) > self._limits.sessions or (
            len(self._all) > 1 and self.nbytes > self._limits.kept_bytes
        ):
            self.drop(self._least_missed())

    def _least_missed(self) -> str:
        """Of the client who holds most, the least recently used; never the most recently used of all."""
        held = Counter[str]()
        for session in self._all.values():
            held[session.client] += 1 + session.nbytes
        *others, _ = self._all.items()
        key, _ = max(others, key=lambda item: held[item[1].client])  # the first of those that are equal
        return key
