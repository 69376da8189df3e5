"""What is known of each model on a split: its choices, its accuracy, its speed if that was measured.

P pairs  L layers
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..evaluate.predictions import Predictions
from ..evaluate.score import MASK_METRICS, score_predictions
from ..files import real_path
from ..processes import rank_and_world_size
from .kinds import KINDS, OTHER, kind_of
from .timing import TIMED_PAIRS, time_pairs

if TYPE_CHECKING:
    from ..data.pairs import PairDataset
    from ..evaluate.breakdown import Summary
    from ..matcher import Matcher

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

ALPHA = 0.1  # of the PCK that is quoted
HEAD = ".safetensors"  # what head files end in


@dataclass(frozen=True, eq=False)
class ModelStudy:
    """One model on one split."""

    label: str  # different from that of every other model of the report
    predictions: Predictions
    accuracy: Summary | None  # whose last value is quoted
    unscored: str = ""  # why there is none
    milliseconds: Floats | None = None  # that each timed pair took; None: not measured

    @property
    def metric(self) -> str:
        """What the accuracy is."""
        return f"PCK@{ALPHA:g}" if self.predictions.kind == "keypoints" else MASK_METRICS[-1]

    @property
    def layers(self) -> Booleans | None:
        """(P, L) true where a layer was on; None if the model chooses no layers."""
        return self.predictions.layers

    @property
    def gates(self) -> Floats | None:
        """(P, L) how sure each gate was to be on, or of soft gates the weight; None without gates."""
        return self.predictions.gate_probabilities

    def groups(self) -> Iterator[tuple[str, str, Booleans]]:
        """Kind, name and pairs (P,): the categories of each kind, the kind itself, at last all pairs."""
        categories = self.predictions.categories
        kinds = np.array([kind_of(category) for category in categories.tolist()])
        for kind in KINDS:
            names = np.unique(categories[kinds == kind]).tolist()
            yield from ((kind, name, categories == name) for name in names)
            if len(names) > 1 and kind != OTHER:
                yield kind, f"all {kind}", kinds == kind
        yield "all", "all pairs", np.ones(len(categories), np.bool_)

    def notes(self) -> Iterator[str]:
        """What must be read with the figures."""
        if self.layers is None:
            yield f"{self.label} chooses no layers; figures about layers leave it out."
        if self.accuracy is None:
            yield f"{self.label}: no {self.metric}; {self.unscored}."
        if self.predictions.skipped:
            yield f"{self.label}: {len(self.predictions.skipped)} pairs were skipped when predicting."


def study_files(paths: Sequence[Path]) -> list[ModelStudy]:
    """Study predictions files, one for each model."""
    if len({real_path(path) for path in paths}) < len(paths):
        raise InputError("the same predictions file is given twice; give each once")
    loaded = [Predictions.load(path) for path in paths]
    for path, predictions in zip(paths, loaded, strict=True):
        if not len(predictions):
            raise InputError(
                f"{path}: holds no pair and skips {len(predictions.skipped)}; nothing to analyse"
            )
    if all(predictions.layers is None for predictions in loaded):
        raise InputError(f"{paths[0]}: {loaded[0].model} chooses no layers; there is nothing to draw")
    labels = _labels([predictions.model for predictions in loaded], [str(path) for path in paths])
    return [
        ModelStudy(label, predictions, *_accuracy(predictions))
        for label, predictions in zip(labels, loaded, strict=True)
    ]


def study_models(
    matchers: Sequence[Matcher],
    dataset: PairDataset,
    folder: Path,
    timed_pairs: int = TIMED_PAIRS,
    workers: int | None = None,
) -> list[ModelStudy]:
    """Predict a split with every model, then time all of them in turn.

    Parameters
    ----------
    folder
        Where the predictions go, and stay; a run that was stopped goes on there.
    timed_pairs
        Pairs to time, at most, spread over the split.
    workers
        Images and pairs to predict side by side; by default one for each processor.
    """
    from ..evaluate.predict import predict

    if rank_and_world_size()[1] > 1:
        raise InputError(
            "analysis runs in one process; use torchrun with 'dhpf predict', then give its files"
        )
    names = [matcher.name for matcher in matchers]
    if len(set(names)) < len(names):
        raise InputError("the same model is given twice; give each once")
    labels = _labels(names, names)
    predicted = []
    for number, (matcher, label) in enumerate(zip(matchers, labels, strict=True), 1):
        found = predict(
            matcher, dataset, folder / f"predictions-{numbered(number, label)}.npz", workers=workers
        )
        predicted += [found.predictions] if found.predictions else []  # there are some, in one process
    # What one model could read, all can: the same files, the same pairs.
    times = time_pairs(matchers, dataset, predicted[0].pair_ids.tolist(), timed_pairs)
    return [
        ModelStudy(label, predictions, *_accuracy(predictions), milliseconds)
        for label, predictions, milliseconds in zip(labels, predicted, times, strict=True)
    ]


def numbered(number: int, label: str) -> str:
    """A part of a file name that no other model has."""
    return f"{number}-" + "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in label)


def _labels(models: Sequence[str], unique: Sequence[str]) -> list[str]:
    """The names of models, of head files without folder and ending; where two are alike, what tells them."""
    names = [Path(model).stem if model.endswith(HEAD) else model for model in models]
    return [label if names.count(label) == 1 else other for label, other in zip(names, unique, strict=True)]


def _accuracy(predictions: Predictions) -> tuple[Summary | None, str]:
    """PCK at 0.1 under the data set's own protocol, of masks their IoU; or why there is none."""
    try:
        return score_predictions(predictions, alphas=[ALPHA]).overall, ""
    except InputError as error:  # of a data set or direction without a protocol
        return None, str(error)
