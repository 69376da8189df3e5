"""All about some models on a split, gathered: from predictions files, or from the models themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..evaluate.predictions import Predictions
from ..processes import rank_and_world_size
from .agreement import Agreement, Incomparable, agreements
from .categories import OTHER, group_of
from .selection import ALL, Booleans, Floats, Quality, Selection, labels_for, quality, select
from .timing import TIMED_PAIRS, Timing, circumstances, time_pairs

if TYPE_CHECKING:
    from ..data.pairs import PairDataset
    from ..matcher import Matcher

NOT_TIMED = (
    "Time per pair: not measured, since predictions files do not hold it; "
    "give models and a data set (--model, --dataset, --root) to measure it."
)


@dataclass(frozen=True, eq=False)
class Study:
    """Models, what they chose, how good they are, and how fast if that was measured."""

    selections: tuple[Selection, ...]
    qualities: tuple[Quality, ...]
    agreements: tuple[Agreement, ...]
    incomparable: tuple[Incomparable, ...]
    timings: tuple[Timing, ...] | None = None  # one for each model; None: not measured
    timed_with: Mapping[str, Any] | None = None

    def notes(self) -> list[str]:
        """What must be read with the figures."""
        lines = [] if self.timings else [NOT_TIMED]
        reasons = Counter(each.reason for each in self.incomparable)
        total = len(self.agreements) + len(self.incomparable)
        for reason, count in reasons.items():
            lines.append(f"Agreement: not computed for {count} of {total} pairs of models; {reason}.")
        for selection, scored in zip(self.selections, self.qualities, strict=True):
            if scored.summary is None:
                lines.append(f"{scored.metric} of {selection.label}: not computed; {scored.reason}.")
            skipped = len(selection.predictions.skipped)
            if skipped:
                lines.append(f"{selection.label}: {skipped} pairs of the split were skipped when predicting.")
        names = {name for selection in self.selections for name in selection.predictions.categories.tolist()}
        strange = sorted(name for name in names if group_of(name) == OTHER)
        if strange:
            lines.append(f"Neither animals, vehicles nor man-made: {', '.join(strange)}.")
        return lines


def study_files(paths: Sequence[Path]) -> Study:
    """Analyse predictions files."""
    if len({path.resolve() for path in paths}) < len(paths):
        raise InputError("the same predictions file is given twice; give each once")
    loaded = [Predictions.load(path) for path in paths]
    labels = labels_for([each.model for each in loaded], paths)
    return gather([select(*each) for each in zip(loaded, labels, paths, strict=True)])


def study_models(
    matchers: Sequence[Matcher],
    dataset: PairDataset,
    folder: Path,
    timed_pairs: int = TIMED_PAIRS,
    workers: int | None = None,
) -> Study:
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
    labels = labels_for([matcher.name for matcher in matchers])
    if len(set(labels)) < len(labels):
        raise InputError("the same model is given twice; give each once")
    selections = []
    for number, (matcher, label) in enumerate(zip(matchers, labels, strict=True), 1):
        file = folder / f"predictions-{numbered(number, label)}.npz"
        predicted = predict(matcher, dataset, file, workers=workers).predictions
        if predicted is not None:  # as it is in one process
            selections.append(select(predicted, label, file))
    # What one model could read, all can: the same files, the same pairs.
    ids = selections[0].predictions.pair_ids.tolist()
    timings = tuple(time_pairs(matchers, dataset, ids, timed_pairs))
    return gather(selections, timings, circumstances(matchers[0]))


def gather(
    selections: Sequence[Selection],
    timings: tuple[Timing, ...] | None = None,
    timed_with: Mapping[str, Any] | None = None,
) -> Study:
    """Score the models and compare them with each other."""
    found, refused = agreements(selections)
    qualities = tuple(quality(selection.predictions) for selection in selections)
    return Study(tuple(selections), qualities, tuple(found), tuple(refused), timings, timed_with)


def numbered(number: int, label: str) -> str:
    """A part of a file name that no other model has."""
    return f"{number}-" + "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in label)


def to_dict(study: Study) -> dict[str, Any]:
    """The study as plain data."""
    timings: Sequence[Timing | None] = study.timings or [None] * len(study.selections)
    return {
        "models": [
            _model(selection)
            | {"quality": scored.to_dict(), "time": None if time is None else time.to_dict()}
            for selection, scored, time in zip(study.selections, study.qualities, timings, strict=True)
        ],
        "agreement": [
            {
                "first": each.first,
                "second": each.second,
                "pairs": each.pairs,
                "mean_jaccard": round(float(each.jaccard.mean()), 6),
                "same": _numbers(each.same),
                "correlation": _numbers(each.correlation),
            }
            for each in study.agreements
        ],
        "not_compared": [asdict(each) for each in study.incomparable],
        "timed_with": study.timed_with,
        "notes": study.notes(),
    }


def _model(selection: Selection) -> dict[str, Any]:
    about = selection.predictions
    dimensions, full = selection.dimensions, int(selection.widths.sum())

    def part(members: Booleans) -> dict[str, Any]:
        mean = float(dimensions[members].mean())
        return {
            "pairs": int(members.sum()),
            "frequency": _numbers(selection.frequency(members)),
            "gate_probability": _numbers(selection.certainty(members)),
            "mean_layers": round(float(selection.counts[members].mean()), 6),
            "pairs_by_layers": selection.histogram(members).tolist(),
            "mean_dimension": round(mean, 3),
            "dimension_share": round(mean / full, 6),
        }

    everyone = np.ones(len(selection.layers), np.bool_)
    return {
        "label": selection.label,
        "model": about.model,
        "commit": about.commit,
        "dataset": about.dataset,
        "split": about.split,
        "direction": about.direction,
        "skipped": len(about.skipped),
        "gated": selection.gated,
        "channels": list(selection.channels),
        "rho": selection.rho,
        "full_dimension": full,
        ALL: part(everyone),
        "groups": {group: part(members) for group, members in selection.groups.items()},
        "categories": {
            name: {"group": group_of(name)} | part(members) for name, members in selection.categories.items()
        },
    }


def _numbers(values: Floats | None) -> list[float | None] | None:
    """Rounded; None for NaN, which JSON does not know."""
    if values is None:
        return None
    return [None if np.isnan(value) else round(value, 6) for value in values.tolist()]
