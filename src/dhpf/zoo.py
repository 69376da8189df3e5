"""Named models: a method on a backbone, perhaps with a trained head, and a card that says what it reaches.

A card is a JSON file beside its head. It is written by the commands that ship a head (``dhpf ship``) and that
measure it (``dhpf evaluate --card``), never by hand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import InputError, unknown
from .files import write_atomically

if TYPE_CHECKING:
    from .methods.base import Method

MODELS = Path(__file__).parent / "assets" / "models"
DEFAULT_MODEL = "resnet50-strong-wide"
UNTRAINED = "hpf-resnet50"  # what a search for other fixed layers begins with


@dataclass(frozen=True)
class Card:
    """What is known about a model."""

    name: str
    summary: str
    method: str
    backbone: str
    config: Mapping[str, Any] = field(default_factory=dict)  # of the method
    size: tuple[int, int] = (240, 240)  # width, height of the network's input that it is meant for
    training: Mapping[str, Any] | None = None  # data, recipe, commit, hours, held-out figures
    training_images: tuple[str, ...] | None = ()  # that it has learned from; None: not named one by one
    figures: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # what was measured: figures
    path: Path | None = None  # where it was read from

    @property
    def head(self) -> Path | None:
        """The file of the trained head, beside the card."""
        head = None if self.path is None else self.path.with_suffix(".safetensors")
        return head if head is not None and head.exists() else None

    def save(self, path: Path) -> None:
        """Write it: all of it, or nothing."""
        content = {key: value for key, value in asdict(self).items() if key != "path"}
        text = json.dumps(content, indent=1, allow_nan=False) + "\n"
        write_atomically(path, lambda place: place.write_text(text, encoding="utf-8"))


def read_card(path: Path) -> Card:
    """A card from its file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        images = content["training_images"]
        return Card(**content | {"path": path, "training_images": None if images is None else tuple(images)})
    except FileNotFoundError:
        raise InputError(f"no such card: {path}") from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"{path} is not a model's card; 'dhpf ship' writes one") from None


@cache
def models() -> Mapping[str, Card]:
    """The cards of all models in the package, the default first."""
    cards = [read_card(path) for path in sorted(MODELS.glob("*.json"))]
    cards.sort(key=lambda card: (card.name != DEFAULT_MODEL, card.training is None, card.name))
    return {card.name: card for card in cards}


def find_card(model: str) -> Card | None:
    """The card of a named model, or the one beside a head file; None where there is none."""
    if model in models():
        return models()[model]
    beside = Path(model).with_suffix(".json")
    return read_card(beside) if beside.is_file() and beside != Path(model) else None


def find_head(model: str) -> Path:
    """The head file of a model that was trained, or an error."""
    card = models().get(model)
    if card is not None and card.head is None:
        raise InputError(f"{model} has no trained head; begin with a model that has one, or a head file")
    return _head_file(model) if card is None else card.head  # type: ignore[return-value]


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
    from .settings import from_mapping

    card = models().get(model)
    if card is None or card.head is not None:
        return load_head(_head_file(model) if card is None else find_head(model), backbone)
    kind = find_method(card.method)
    config = from_mapping(kind.Config, card.config, f"{card.path}, config")
    return kind(load_backbone(card.backbone, backbone), config).for_inference()


def _head_file(model: str) -> Path:
    if not model:
        raise InputError("the model has no name; give one from 'dhpf models', or a head file")
    path = Path(model)
    if not path.suffix and not path.exists():
        raise unknown("model", model, models())
    return path


def training_images(model: str) -> tuple[str, ...] | None:
    """The images that a model has learned from, by name; None if it does not say."""
    from .heads import read_metadata

    card = models().get(model)
    if card is not None and card.head is None:
        return card.training_images
    path = find_head(model)
    if not path.is_file():
        return None
    names = read_metadata(path).get("training_images")
    return None if names is None else tuple(names.splitlines())


def ship(head: Path, out: Path, summary: str, data: str) -> Card:
    """Make a trained head ready for others: in float16, without traces of the machine, with a card beside it.

    Parameters
    ----------
    head
        As 'dhpf train' writes it.
    out
        The head file to write; its name without the ending becomes the model's.
    summary, data
        For people: what the model is, and what it has learned from.
    """
    from .backbones.weights import read_state
    from .heads import _on_empty_backbone, read_metadata, save_head

    metadata = read_metadata(head)
    if "recipe" not in metadata:
        raise InputError(f"{head} does not say how it was trained; ship heads that 'dhpf train' wrote")
    method = _on_empty_backbone(head)
    state = {key: value.half() for key, value in read_state(head).items()}
    if not all(value.isfinite().all() for value in state.values()):
        raise InputError(f"{head}: a weight is too large for float16")
    recipe = json.loads(metadata["recipe"])
    recipe["data"].pop("root", None)  # where the data lay, and how large the disk was, is nobody's business
    recipe["run"].pop("cache_gb", None)
    about = {key: metadata[key] for key in ("commit", "metrics", "hours", "training_images") if key in metadata}
    save_head(out, method, metadata["backbone"], state, **about, recipe=json.dumps(recipe))
    card = Card(
        name=out.stem,
        summary=summary,
        method=method.name,
        backbone=metadata["backbone"],
        config=asdict(method.config),
        size=tuple(recipe["model"]["size"]),
        training={
            "data": data,
            "recipe": recipe["name"],
            "commit": metadata["commit"],
            "hours": float(metadata["hours"]),
            "held_out": json.loads(metadata["metrics"]),
        },
        training_images=None,  # the head names them
    )
    card.save(out.with_suffix(".json"))
    return card


def record_figures(card: Path, key: str, figures: Mapping[str, Any]) -> None:
    """Add what was measured to a card, in place of what was measured under the same key before."""
    known = read_card(card)
    replace(known, figures={**known.figures, key: dict(figures)}).save(card)
