"""The models that can be asked for by name: what each is, how it was made, what it reaches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

HEADS = Path(__file__).parent.parent / "assets" / "heads"

PASCAL = "PF-PASCAL test, PCK at 0.05 / 0.1 / 0.15 of the image"
PASCAL_CLEAN = "PF-PASCAL test without pairs that share a photo with training"
WILLOW = "PF-WILLOW, the same of the keypoints' extent"
WILLOW_PADDED = "PF-WILLOW, published (padded) threshold"
LAYERS = "layers on average, PF-PASCAL test"


@dataclass(frozen=True)
class Training:
    """How a head was trained."""

    data: str
    recipe: str  # below recipes/
    commit: str
    hours: float


@dataclass(frozen=True)
class ModelEntry:
    """A model that can be asked for by name."""

    name: str
    backbone: str
    description: str
    layers: tuple[int, ...] = ()  # fixed hyperpixel layers; empty where a trained head chooses
    fitted_to: tuple[str, ...] | None = ()  # images that its choices were made on; None: not named one by one
    figures: Mapping[str, str] = field(default_factory=dict)  # measured here: what -> value
    training: Training | None = None  # of a trained head

    @property
    def head(self) -> Path | None:
        """The file of the trained head."""
        return HEADS / f"{self.name}.safetensors" if self.training else None


MODELS: Mapping[str, ModelEntry] = {
    entry.name: entry
    for entry in (
        ModelEntry(
            name="hpf-resnet50",
            backbone="resnet50-msra",
            description="static hyperpixels, no training; bundled",
            layers=(2, 7, 11, 12, 15),
            figures={
                PASCAL: "49.7 / 77.2 / 87.9",
                WILLOW: "37.2 / 65.5 / 80.7",
                WILLOW_PADDED: "46.2 / 76.6 / 88.4",
            },
        ),
        ModelEntry(
            name="hpf-resnet50-searched",
            backbone="resnet50-msra",
            description="static hyperpixels, layers searched on PF-PASCAL's validation pairs; bundled",
            layers=(0, 9, 10, 11, 12),
            fitted_to=None,
            figures={
                PASCAL: "54.6 / 78.7 / 87.7",
                WILLOW: "40.1 / 67.6 / 80.3",
                WILLOW_PADDED: "49.1 / 76.8 / 87.7",
            },
        ),
        ModelEntry(
            name="resnet50-strong",
            backbone="resnet50-msra",
            description="dynamic hyperpixels, a closer look, trained on PF-PASCAL and alike photos; bundled",
            training=Training(
                data="240 of PF-PASCAL's validation pairs, no test pair; alike photos of it and SPair-71k",
                recipe="resnet50-strong.toml",
                commit="b3a0a93",
                hours=0.5,
            ),
            figures={
                PASCAL: "61.5 / 84.3 / 92.5",
                WILLOW: "44.3 / 72.3 / 86.0",
                WILLOW_PADDED: "54.6 / 82.3 / 92.9",
                PASCAL_CLEAN: "60.0 / 83.6 / 91.7 (214 pairs)",
                LAYERS: "16.6",
            },
        ),
        ModelEntry(
            name="resnet50-strong-wide",
            backbone="resnet50-msra",
            description="dynamic hyperpixels, trained on keypoints of PF-PASCAL and SPair-71k; bundled",
            training=Training(
                data="203 of PF-PASCAL's validation pairs, none a test pair, and 2,147 pairs of SPair-71k",
                recipe="resnet50-strong-wide.toml",
                commit="6410a55",
                hours=0.9,
            ),
            figures={
                PASCAL: "53.7 / 79.0 / 87.9",
                WILLOW: "37.2 / 65.9 / 80.7",
                WILLOW_PADDED: "46.8 / 76.0 / 88.8",
                PASCAL_CLEAN: "51.8 / 77.8 / 86.7 (230 pairs)",
                LAYERS: "8.4",
            },
        ),
        ModelEntry(
            name="resnet50-weak",
            backbone="resnet50-msra",
            description="dynamic hyperpixels, trained on PF-PASCAL pairs without keypoints; bundled",
            training=Training(
                data="PF-PASCAL's training pairs that are no test pairs, of which only the category is used",
                recipe="resnet50-weak.toml",
                commit="6410a55",
                hours=0.5,
            ),
            figures={
                PASCAL: "54.4 / 79.9 / 89.0",
                WILLOW: "38.4 / 65.5 / 79.6",
                WILLOW_PADDED: "47.4 / 75.2 / 87.5",
                PASCAL_CLEAN: "52.3 / 79.3 / 90.1 (151 pairs)",
                LAYERS: "8.7",
            },
        ),
        ModelEntry(
            name="hpf-resnet50-torchvision",
            backbone="resnet50",
            description="the layers of hpf-resnet50 on torchvision's weights",
            layers=(2, 7, 11, 12, 15),
        ),
        ModelEntry(
            name="hpf-resnet101",
            backbone="resnet101",
            description="static hyperpixels, the layers that the HPF paper found for ResNet-101",
            layers=(2, 17, 21, 22, 25, 26, 28),
        ),
    )
}
DEFAULT_MODEL = "resnet50-strong-wide"
UNTRAINED = "hpf-resnet50"  # what a search for other fixed layers begins with
