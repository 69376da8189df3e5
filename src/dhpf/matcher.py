"""Matcher: photos in, Match out. Pixels of the original photos everywhere."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL import Image

from .backbones.base import Features
from .errors import InputError
from .grid import Size, mirror_points
from .images import ImageLike, read_image, to_input
from .match import Match
from .methods.base import Matches, Method
from .model.scores import MirroredScores
from .zoo import DEFAULT_MODEL, Calibration, intended_size, load_method, models

if TYPE_CHECKING:
    import os

DEFAULT_SIZE = (240, 240)  # of most models
SMALLEST_SIZE, LARGEST_SIZE = 32, 1024
FLIPS = ("none", "auto")
BETTER = 1.05  # so much surer must a model be of the mirrored target


@dataclass(frozen=True, eq=False)
class ImageFeatures:
    """An image and what a matcher saw in it."""

    image: Image.Image
    features: Features = field(repr=False)
    matcher: str  # its fingerprint
    device: str
    mirrored: Features | None = field(default=None, repr=False)  # of the mirrored image, to flip="auto"

    @property
    def nbytes(self) -> int:
        """Memory held."""
        both = self.features.nbytes + (self.mirrored.nbytes if self.mirrored else 0)
        return both + 3 * self.image.width * self.image.height


class Matcher:
    """Finds correspondences between photos of objects of one category.

    >>> import dhpf
    >>> matcher = dhpf.load()
    >>> match = matcher.match(dhpf.sample("cheetah"), dhpf.sample("cheetah_cub"))
    >>> match.transfer([[88, 92]]).shape  # an eye
    (1, 2)
    """

    def __init__(
        self,
        method: Method,
        name: str,
        size: Size | int = DEFAULT_SIZE,
        device: str | torch.device = "cpu",
        matrix_bytes: int | None = None,
        flip: str = FLIPS[0],
        calibration: Calibration | None = None,
    ) -> None:
        """See :func:`load` for the parameters; ``calibration`` is what the method's confidences mean."""
        self.calibration = calibration
        self.flip = check_flip(flip)
        self.size = round_size(check_size(size), method.backbone.multiple)
        self.device = check_device(device)
        self.method = method.to(self.device).eval()
        self.name = name
        self.matrix_bytes = matrix_bytes

    @property
    def description(self) -> dict[str, Any]:
        """How it matches, as plain data: what predictions files record."""
        config = json.loads(json.dumps(asdict(self.method.config)))
        return {"method": self.method.name, "size": list(self.size), "flip": self.flip, "config": config}

    @cached_property
    def fingerprint(self) -> str:
        """Of its weights, settings and how its networks are built: equal for matchers that do the same."""
        backbone = self.method.backbone
        meaning = None if self.calibration is None else asdict(self.calibration)
        built = json.dumps([self.description, backbone.mean, backbone.std, repr(self.method), meaning])
        digest = hashlib.blake2b(built.encode(), digest_size=16)
        for name, value in sorted(self.method.state_dict().items()):
            digest.update(name.encode())
            digest.update(value.cpu().contiguous().view(-1).view(torch.uint8).numpy())
        return digest.hexdigest()

    def features(self, image: ImageLike, name: str = "image") -> ImageFeatures:
        """Compute a photo's features once, to match it with many others.

        Parameters
        ----------
        image
            A path, PIL image, array or tensor (see :func:`dhpf.images.read_image`).
        name
            What to call it in errors, where it is not a file.
        """
        photo = read_image(image, name)
        features, mirrored = self._features(photo)
        return ImageFeatures(photo, features, self.fingerprint, str(self.device), mirrored)

    def match(
        self, source: ImageLike | ImageFeatures, target: ImageLike | ImageFeatures, scores: bool = True
    ) -> Match:
        """Match two photos, or photos whose features are at hand.

        Parameters
        ----------
        source, target
            Paths, PIL images, arrays, tensors (see :func:`dhpf.images.read_image`) or :meth:`features`.
        scores
            Keep what :meth:`Match.scores` needs. For 240 x 240 pixels it takes up to 10 MB with gates, 18 MB
            with static hyperpixels; do without where many matches are kept.
        """
        (image_a, a, _), (image_b, b, mirrored) = self._seen(source, "source"), self._seen(target, "target")
        found, flipped = self.method.match(a, b, matrix_bytes=self.matrix_bytes), False
        if mirrored is not None:
            other = self.method.match(a, mirrored, matrix_bytes=self.matrix_bytes)
            flipped = bool(other.flow.confidence.mean() > BETTER * found.flow.confidence.mean())
            found = _mirrored_back(other, self.size[0]) if flipped else found
        probability = None if found.layer_probability is None else found.layer_probability.cpu().numpy()
        numbers = found.flow.displacement, found.flow.confidence, () if probability is None else probability
        if not all(np.isfinite(part).all() for part in numbers):
            raise InputError(
                f"{self.name} computes values that are infinite or no numbers; get its files again"
            )
        flow = found.flow
        if self.calibration is not None:
            meant = np.interp(flow.confidence, self.calibration.confidence, self.calibration.right)
            flow = replace(flow, confidence=meant)
        return Match(
            source=image_a,
            target=image_b,
            cells=flow,
            size=self.size,
            model=self.name,
            layers=found.layers,
            layer_probability=probability,
            match_scores=found.scores if scores else None,
            flipped=flipped,
        )

    def _features(self, photo: Image.Image) -> tuple[Features, Features | None]:
        """Of a photo, and if it may have to be matched mirrored, of that."""
        backbone = self.method.backbone
        tensor = to_input(photo, self.size, backbone.mean, backbone.std)[0].to(self.device)
        mirrored = self.method.features(tensor.flip(2)) if self.flip == "auto" else None
        return self.method.features(tensor), mirrored

    def _seen(
        self, image: ImageLike | ImageFeatures, name: str
    ) -> tuple[Image.Image, Features, Features | None]:
        """A photo and its features; those at hand must be this matcher's kind."""
        if not isinstance(image, ImageFeatures):
            photo = read_image(image, name)
            return photo, *self._features(photo)
        if image.matcher != self.fingerprint:
            raise InputError(
                f"{name} holds features of another matcher: other weights, settings or input size than those "
                f"of this {self.name} at {self.size[0]} x {self.size[1]}; compute them with this one"
            )
        if image.device != str(self.device):
            raise InputError(
                f"{name} holds features on {image.device}; this matcher computes on {self.device}"
            )
        return image.image, image.features, image.mirrored


def _mirrored_back(found: Matches, width: int) -> Matches:
    """Matches with a mirrored target as matches with the target."""
    flow = found.flow
    centres = flow.grid.centres()
    landed = mirror_points(centres + flow.displacement, width)
    scores = None if found.scores is None else MirroredScores(found.scores, width)
    return found._replace(flow=replace(flow, displacement=landed - centres), scores=scores)


def load(
    model: str | os.PathLike[str] = DEFAULT_MODEL,
    size: Size | int | None = None,
    device: str | torch.device = "cpu",
    backbone: str | os.PathLike[str] | None = None,
    matrix_bytes: int | None = None,
    flip: str = FLIPS[0],
) -> Matcher:
    """Load a model.

    Parameters
    ----------
    model
        A name from ``dhpf models`` or the path of a head file.
    size
        What photos are resized to for the network: width and height in pixels, or one number for both; by
        default what the model was made for.
    device
        Where to compute: "cpu", "cuda", "cuda:1".
    backbone
        A local ``.pth`` or ``.safetensors`` with the backbone's weights, instead of the named ones.
    matrix_bytes
        Bound on the memory for the correlation matrix; beyond it, parts are computed again instead of kept.
    flip
        "auto": match the target mirrored as well, and keep the orientation of which the model is surer. It
        helps where an object may face either way; left and right of the object are then exchanged.
    """
    chosen = intended_size(str(model)) if size is None else size
    sides, place = check_size(chosen), check_device(device)  # before weights are read or even downloaded
    check_flip(flip)
    method = load_method(str(model), None if backbone is None else Path(backbone))
    calibration = models()[str(model)].calibration if str(model) in models() else None
    return Matcher(method, str(model), sides, place, matrix_bytes, flip, calibration)


def round_size(size: Size, multiple: int) -> Size:
    """The nearest size whose sides are multiples, as some backbones need."""
    width, height = (max(multiple, round(side / multiple) * multiple) for side in size)
    return width, height


def check_size(size: tuple[int, int] | int) -> tuple[int, int]:
    """Width and height of the network's input, or an error."""
    try:
        width, height = size if isinstance(size, Sequence) else (size, size)
        sides = index(width), index(height)
    except (TypeError, ValueError):
        raise InputError(f"size {size!r}: wanted one whole number or (width, height)") from None
    if not all(SMALLEST_SIZE <= side <= LARGEST_SIZE for side in sides):
        given = "x".join(map(str, sides))
        raise InputError(f"size {given}: each side must be from {SMALLEST_SIZE} to {LARGEST_SIZE} pixels")
    return sides


def check_flip(flip: str) -> str:
    """Whether mirrored targets are matched as well, or an error."""
    if flip not in FLIPS:
        raise InputError(f"flip = {flip!r}; wanted: {' or '.join(FLIPS)}")
    return flip


def check_device(device: str | torch.device) -> torch.device:
    """A device that is there, or an error."""
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError):
        raise InputError(f"unknown device '{device}': give cpu, cuda or cuda:N") from None
    if chosen.type not in ("cpu", "cuda"):
        raise InputError(f"cannot compute on '{device}': give cpu, cuda or cuda:N")
    if chosen.type == "cuda" and (chosen.index or 0) >= torch.cuda.device_count():
        raise InputError(f"no device '{device}': {torch.cuda.device_count()} CUDA devices found; use cpu")
    return chosen
