"""The tables of figures in README.md and docs/models.md, and the models' cards, from benchmarks/results.

python -m benchmarks.tables
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from benchmarks.evaluate import fill_card
from benchmarks.record import RESULTS, ROOT, write_between
from dhpf.cli.models import unseen
from dhpf.zoo import DEFAULT_MODEL, models


def result(name: str) -> dict[str, Any] | None:
    """What a file of results holds; None if it is not there."""
    path = RESULTS / f"{name}.json"
    found: dict[str, Any] | None = json.loads(path.read_text())["result"] if path.exists() else None
    return found


def measured() -> list[str]:
    """The models that anything was measured of, the best on the held-out pairs first."""

    def worse(model: str) -> float:
        found = result(f"held_out_{model}")
        return 0.0 if found is None else -found["pck"]["mean"][1]

    return sorted((model for model in models() if [*RESULTS.glob(f"*_{model}.json")]), key=worse)


def short_table() -> str:
    """One figure a data set, for the README."""
    costs = result("model_times") or {}
    titles = ["Model", "PF-PASCAL, leak-free", "PF-WILLOW", "SPair-71k, held out", "Layers"]
    titles += ["Seconds", "Memory"] if costs else []
    rows = [f"| {' | '.join(titles)} |", "|" + "---|" * len(titles)]
    for model in measured():
        pascal, willow, spair = (result(f"{d}_{model}") for d in ("pf-pascal", "pf-willow", "spair-71k"))
        cells = [_at(unseen(found)) for found in (pascal, willow, spair)]
        layers = (pascal or {}).get("average_layers")
        name = f"`{model}`" + (", the default" if model == DEFAULT_MODEL else "")
        cells.append("" if layers is None else f"{layers:.1f}")
        if costs:
            cost = costs.get(model)
            cells += (
                ["", ""] if cost is None else [f"{cost['new_photos']:.2f}", f"{cost['peak_memory_mb']} MB"]
            )
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(rows)


def long_table() -> str:
    """Every figure with its file, for the documentation."""
    kinds = {
        "PF-PASCAL, image": "pf-pascal_{}",
        "PF-PASCAL, original pixels": "pf-pascal_{}_original",
        "PF-WILLOW, keypoints": "pf-willow_{}",
        "PF-WILLOW, padded (legacy)": "pf-willow_{}_legacy",
        "SPair-71k, held out": "spair-71k_{}",
    }
    rows = [f"| Model | {' | '.join(kinds)} | Leak-free PF-PASCAL |", "|" + "---|" * (len(kinds) + 2)]
    for model in measured():
        cells = []
        for pattern in kinds.values():
            name = pattern.format(model)
            found = result(name)
            link = f"(../benchmarks/results/{name}.json)"
            cells.append("" if found is None else f"[{_all(found)}]{link}")
        pascal = result(f"pf-pascal_{model}")
        clean = unseen(pascal)
        cells.append("" if clean is None else f"{_all(clean)} ({clean['pairs']} pairs)")
        rows.append(f"| `{model}` | {' | '.join(cells)} |")
    return "\n".join(rows)


def held_out_table() -> str:
    """All models on the same held-out pairs, the best first."""
    found = {model: record for model in measured() if (record := result(f"held_out_{model}"))}
    parts = {
        "pf-pascal/trn": "PF-PASCAL",
        "spair-71k/trn": "SPair-71k",
        "coco/VOC-keypoints": "VOC",
        "mean": "Mean",
    }
    rows = [f"| Model | {' | '.join(parts.values())} | Seen | Calibration |", "|" + "---|" * (len(parts) + 3)]
    for model, one in found.items():
        cells = [" / ".join(f"{value:.1f}" for value in one["pck"][part]) for part in parts]
        seen = sum(one["pairs_of_which_an_image_was_trained_on"].values())
        link = f"[{one['calibration_error']:.1f}](../benchmarks/results/held_out_{model}.json)"
        rows.append(f"| `{model}` | {' | '.join(cells)} | {seen} | {link} |")
    return "\n".join(rows)


def learned_table() -> str:
    """What each model has learned from, as its card says."""
    rows = ["| Model | What | Learned from | Hours |", "|---|---|---|---|"]
    for model in measured():
        card = models()[model]
        how = card.training
        if how is None:
            data, hours = "only which layers are best" if card.training_images else "nothing", ""
        else:
            data, hours = how.data, f"{how.hours:.2f}" if how.hours >= 0.01 else "under 0.01"
        rows.append(f"| `{model}` | {card.summary} | {data} | {hours} |")
    return "\n".join(rows)


def _at(found: Mapping[str, Any] | None, alpha: str = "0.1") -> str:
    return "" if found is None else f"{found['pck'][alpha]:.1f}"


def _all(found: Mapping[str, Any]) -> str:
    return " / ".join(f"{value:.1f}" for value in found["pck"].values())


def main() -> None:
    """Write all of them."""
    for model in models():
        fill_card(model)
    tables = (
        ("README.md", "figures", short_table()),
        ("docs/models.md", "figures", long_table()),
        ("docs/models.md", "held-out figures", held_out_table()),
        ("docs/models.md", "training", learned_table()),
    )
    for name, what, table in tables:
        write_between(ROOT / name, what, table)


if __name__ == "__main__":
    main()
