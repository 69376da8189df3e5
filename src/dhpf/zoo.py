"""Named models: a method on a backbone, perhaps with a trained head, and a card that says what it reaches.

A card is a JSON file beside its head. It is written by the commands that ship a head (``dhpf ship``) and that
measure it (``dhpf evaluate --card``), never by hand. It is for people: to match, a head file is enough.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import InputError, unknown
from .files import check_outputs, read_json, write_atomically, write_together
from .grid import Size
from .settings import from_mapping

if TYPE_CHECKING:
    from .methods.base import Method

MODELS = Path(__file__).parent / "assets" / "models"
DEFAULT_MODEL = "dinov2-small"
UNTRAINED = "hpf-resnet50"  # what a search for other fixed layers begins with


@dataclass(frozen=True)
class Training:
    """How a head was trained."""

    data: str  # what it has learned from, for people
    recipe: str
    commit: str
    hours: float
    held_out: Mapping[str, Any] = field(default_factory=dict)  # figures of the epoch that was kept


@dataclass(frozen=True)
class Calibration:
    """What a model's own confidence means: how often it is right within a tenth of the object's box.

    Measured on held-out pairs; between these confidences, by linear interpolation.
    """

    confidence: tuple[float, ...]  # ascending
    right: tuple[float, ...]  # ascending, in [0, 1]

    def __post_init__(self) -> None:
        for name in ("confidence", "right"):
            values = getattr(self, name)
            ordered = all(low <= high for low, high in pairwise(values))
            if not values or not ordered or values[0] < 0 or values[-1] > 1:
                raise InputError(f"{name} = {reprlib.repr(values)}; wanted ascending numbers from 0 to 1")
        if len(self.confidence) != len(self.right):
            raise InputError("confidence and right are not equally long")


@dataclass(frozen=True)
class Cost:
    """Of matching one pair on a processor."""

    seconds: float  # for two new photos
    seconds_with_features: float  # for photos that were seen before
    megabytes: int  # the largest memory of the process
    machine: str
    commit: str


@dataclass(frozen=True)
class Card:
    """What is known about a model."""

    name: str
    summary: str
    method: str
    backbone: str
    config: Mapping[str, Any] = field(default_factory=dict)  # of the method
    size: Size = (240, 240)  # width, height of the network's input that it is meant for
    training: Training | None = None
    # That it has learned from, or that its layers were searched on; None: not named here one by one.
    training_images: tuple[str, ...] | None = ()
    figures: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # what was measured: figures
    cost: Cost | None = None
    calibration: Calibration | None = None

    @property
    def head(self) -> Path | None:
        """The file of the trained head in the package."""
        head = MODELS / f"{self.name}.safetensors"
        return head if head.exists() else None

    def text(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self), indent=1, allow_nan=False) + "\n"


def make_card(content: Any, place: str) -> Card:
    """A card from plain data; ``place`` is named in errors."""
    card = from_mapping(Card, content, place)
    try:
        card.text()
    except ValueError:  # in a part that may hold anything
        raise InputError(f"{place}: a number is infinite or none; wanted finite ones") from None
    return card


def read_card(path: Path) -> Card:
    """A card from its file."""
    return make_card(read_json(path, "model's card"), str(path))


@cache
def models() -> Mapping[str, Card]:
    """The cards of all models in the package, the default first."""
    cards = [read_card(path) for path in sorted(MODELS.glob("*.json"))]
    cards.sort(key=lambda card: (card.name != DEFAULT_MODEL, card.training is None, card.name))
    return {card.name: card for card in cards}


def find_head(model: str) -> Path:
    """The head file of a model that was trained, or an error."""
    card = models().get(model)
    if card is None:
        return _head_file(model)
    if card.head is None:
        raise InputError(f"{model} has no trained head; begin with a model that has one, or a head file")
    return card.head


def _head_file(model: str) -> Path:
    if not model:
        raise InputError("the model has no name; give one from 'dhpf models', or a head file")
    path = Path(model)
    if not path.suffix and not path.exists():
        raise unknown("model", model, models())
    return path


def load_method(model: str, backbone: Path | None = None) -> Method:
    """Build the named model, or the one whose head is in the given file, ready for inference.

    Parameters
    ----------
    backbone
        A local file with the backbone's weights, instead of the bundled or downloaded ones.
    """
    from .backbones.weights import load_backbone
    from .heads import load_head
    from .methods import find_method

    card = models().get(model)
    if card is None or card.head is not None:
        return load_head(find_head(model), backbone)
    kind = find_method(card.method)
    config = from_mapping(kind.Config, card.config, f"{card.name}, config")
    return kind(load_backbone(card.backbone, backbone), config).for_inference()


def method_of(model: str) -> type[Method]:
    """What kind of method a model is; its weights are not read."""
    from .heads import read_metadata
    from .methods import find_method

    card = models().get(model)
    return find_method(read_metadata(find_head(model))["method"] if card is None else card.method)


def intended_size(model: str) -> Size:
    """Width and height of the network's input that a model is meant for."""
    from .heads import json_in, read_metadata

    if model in models():
        return models()[model].size
    path = find_head(model)
    metadata = read_metadata(path)
    if "recipe" not in metadata:  # it was imported
        return Card.size
    return _size_in(json_in(metadata, "recipe", path), path)


def training_images(model: str) -> tuple[str, ...] | None:
    """The images that a model has learned from, by name; None if it does not say."""
    from .heads import read_metadata

    card = models().get(model)
    if card is not None and card.head is None:
        return card.training_images
    path = Path(model) if card is None else find_head(model)
    if not path.is_file():  # a model that is not from a file
        return None
    names = read_metadata(path).get("training_images")
    return None if names is None else tuple(names.splitlines())


def ship(head: Path, out: Path, summary: str, data: str) -> Card:
    """Make a trained head ready for others: in 8 bits, without traces of the machine, with a card beside it.

    Parameters
    ----------
    head
        As 'dhpf train' writes it.
    out
        The head file to write; its name without the ending becomes the model's.
    summary, data
        For people: what the model is, and what it has learned from.
    """
    from .backbones.state import dequantised, load_strictly, quantised, read_state
    from .heads import check_head_name, head_content, json_in, read_head, read_metadata

    check_head_name(out)
    beside = out.with_suffix(".json")
    check_outputs([out, beside], inputs=[head])
    method, metadata = read_head(head), read_metadata(head)
    if "recipe" not in metadata:
        raise InputError(f"{head} does not say how it was trained; ship heads that 'dhpf train' wrote")
    recipe = _without_machine(json_in(metadata, "recipe", head), head)
    state = quantised(dequantised(read_state(head)))
    load_strictly(method.head(), dequantised(state), f"{head} in 8 bits")
    about = {
        key: metadata[key] for key in ("commit", "hours", "metrics", "training_images") if key in metadata
    }
    content = head_content(method, metadata["backbone"], state, **about, recipe=json.dumps(recipe))
    training = {
        "data": data,
        "recipe": recipe.get("name"),
        "commit": metadata.get("commit"),
        "hours": json_in(metadata, "hours", head),
        "held_out": json_in(metadata, "metrics", head),
    }
    card = make_card(
        {
            "name": out.stem,
            "summary": summary,
            "method": method.name,
            "backbone": metadata["backbone"],
            "config": json.loads(json.dumps(asdict(method.config))),  # lists, as the file will have
            "size": _size_in(recipe, head),
            "training": training,
            "training_images": None,  # the head names them
        },
        str(head),
    )
    write_together({out: content, beside: card.text().encode()})
    return card


def _size_in(recipe: Any, head: Path) -> Size:
    try:
        width, height = recipe["model"]["size"]
        return int(width), int(height)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise InputError(f"{head}: its recipe does not say model.size; train it again") from None


def _without_machine(recipe: Any, head: Path) -> dict[str, Any]:
    """Where the data lay, and how large the disk was, is nobody's business."""
    try:
        model, data, run = (dict(recipe[section]) for section in ("model", "data", "run"))
        for key in ("train", "validate", "exclude", "exclude_images"):
            data[key] = [_without_folders(name) for name in data.get(key, ())]
        model["start"] = Path(model["start"]).name
        data.pop("root", None)
        run.pop("cache_gb", None)
        return {**recipe, "model": model, "data": data, "run": run}
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InputError(f"{head}: its recipe is not one of 'dhpf train'; train it again") from None


def _without_folders(name: str) -> str:
    kind, colon, path = name.partition(":")
    return kind + colon + Path(path).name if colon and Path(path).is_absolute() else name


def record_figures(card: Path, key: str, figures: Mapping[str, Any]) -> None:
    """Add what was measured to a card, in place of what was measured under the same key before."""
    known = read_card(card)
    _rewrite(card, replace(known, figures={**known.figures, key: figures}))


def record_cost(card: Path, cost: Cost) -> None:
    """Put into a card what its model takes."""
    _rewrite(card, replace(read_card(card), cost=cost))


def record_calibration(card: Path, calibration: Calibration) -> None:
    """Put into a card what its model's confidences mean."""
    _rewrite(card, replace(read_card(card), calibration=calibration))


def _rewrite(path: Path, card: Card) -> None:
    write_atomically(path, make_card(asdict(card), str(path)).text().encode())
