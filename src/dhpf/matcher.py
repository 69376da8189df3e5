"""Matcher: photos in, Match out. Pixels of the original photos everywhere."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
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
from .match import Foreground, Match
from .methods.base import Matches, Method
from .model.readout import Flow
from .model.scores import MirroredScores
from .zoo import DEFAULT_MODEL, Calibration, intended_size, load_method, models

if TYPE_CHECKING:
    import os

DEFAULT_SIZE = (240, 240)  # of most models
SMALLEST_SIZE, LARGEST_SIZE = 32, 1024
FLIPS = ("none", "auto")
BETTER = 1.2  # so much surer must a model be of the mirrored target; with 1.1, held-out pairs lose two points


@dataclass(frozen=True, eq=False)
class ImageFeatures:
    """An image and what a matcher saw in it."""

    image: Image.Image
    features: Features = field(repr=False)
    matcher: str  # its fingerprint
    device: str
    # With flip="auto", those of the mirrored image: computed when it is first a target, then held.
    mirrored: Callable[[], Features] | None = field(default=None, repr=False)

    @property
    def nbytes(self) -> int:
        """Memory held, or needed once the image is a target."""
        orientations = 1 if self.mirrored is None else 2
        return orientations * self.features.nbytes + 3 * self.image.width * self.image.height

    def __getstate__(self) -> dict[str, Any]:
        """What is saved or copied leaves behind how to compute, for which the whole model is needed."""
        return {**self.__dict__, "mirrored": None}


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
        mirrored = cache(lambda: self.see(photo, mirrored=True)) if self.flip == "auto" else None
        return ImageFeatures(photo, self.see(photo), self.fingerprint, str(self.device), mirrored)

    def see(self, photo: Image.Image, mirrored: bool = False) -> Features:
        """The bare features of a photo, or of its mirror image."""
        backbone = self.method.backbone
        tensor = to_input(photo, self.size, backbone.mean, backbone.std)[0].to(self.device)
        return self.method.features(tensor.flip(2) if mirrored else tensor)

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
        (image_a, a), (image_b, b) = self._seen(source, "source"), self._seen(target, "target")
        found, flipped = self.method.match(a, b, matrix_bytes=self.matrix_bytes), False
        if self.flip == "auto":
            held = target.mirrored if isinstance(target, ImageFeatures) else None
            mirrored = self.see(image_b, mirrored=True) if held is None else held()
            other = self.method.match(a, mirrored, matrix_bytes=self.matrix_bytes)
            flipped = bool(other.flow.confidence.mean() > BETTER * found.flow.confidence.mean())
            found = _mirrored_back(other, self.size[0]) if flipped else found
        probability = None if found.layer_probability is None else found.layer_probability.cpu().numpy()
        numbers = found.flow.displacement, found.flow.confidence, () if probability is None else probability
        if not all(np.isfinite(part).all() for part in numbers):
            raise InputError(
                f"{self.name} computes values that are infinite or no numbers; get its files again"
            )
        return Match(
            source=image_a,
            target=image_b,
            cells=self.calibrated(found.flow),
            size=self.size,
            model=self.name,
            layers=found.layers,
            layer_probability=probability,
            match_scores=found.scores if scores else None,
            foreground=_foreground(a, b),
            flipped=flipped,
        )

    def calibrated(self, flow: Flow) -> Flow:
        """With confidences that mean how often a match is right, where that is known."""
        if self.calibration is None:
            return flow
        meant = np.interp(flow.confidence, self.calibration.confidence, self.calibration.right)
        return replace(flow, confidence=meant)

    def _seen(self, image: ImageLike | ImageFeatures, name: str) -> tuple[Image.Image, Features]:
        """A photo and its features; those at hand must be this matcher's kind."""
        if not isinstance(image, ImageFeatures):
            photo = read_image(image, name)
            return photo, self.see(photo)
        if image.matcher != self.fingerprint:
            raise InputError(
                f"{name} holds features of another matcher: other weights, settings or input size than those "
                f"of this {self.name} at {self.size[0]} x {self.size[1]}; compute them with this one"
            )
        if image.device != str(self.device):
            raise InputError(
                f"{name} holds features on {image.device}; this matcher computes on {self.device}"
            )
        return image.image, image.features


def _foreground(*sides: Features) -> tuple[Foreground, Foreground] | None:
    known = [
        Foreground(side.foreground.cpu().numpy(), side.grid.with_shape(*side.foreground.shape))
        for side in sides
        if side.foreground is not None
    ]
    return (known[0], known[1]) if len(known) == 2 else None


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
