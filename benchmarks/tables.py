"""The tables of figures in README.md and docs/models.md, from the files under benchmarks/results.

python -m benchmarks.tables
"""

from __future__ import annotations

import json
import re
from typing import Any

from benchmarks.record import RESULTS, ROOT
from dhpf.zoo import DEFAULT_MODEL, models

SHOWN = (
    "dinov2-small",
    "nearest-dinov2-small",
    "resnet50-strong-wide",
    "resnet50-strong",
    "resnet50-weak",
    "hpf-resnet50-searched",
    "hpf-resnet50",
    "scnet-resnet50",
    "nearest-resnet50",
    "proposal-flow",
)


def result(name: str) -> dict[str, Any] | None:
    """What a file of results holds; None if it is not there."""
    path = RESULTS / f"{name}.json"
    found: dict[str, Any] | None = json.loads(path.read_text())["result"] if path.exists() else None
    return found


def measured() -> list[str]:
    """The models that anything was measured of."""
    return [model for model in models() if [*RESULTS.glob(f"*_{model}.json")]]


def short_table() -> str:
    """One figure a data set, for the README."""
    costs = result("model_times") or {}
    titles = ["Model", "PF-PASCAL, leak-free", "PF-WILLOW", "SPair-71k, held out", "Layers"]
    titles += ["Seconds", "Memory"] if costs else []
    rows = [f"| {' | '.join(titles)} |", "|" + "---|" * len(titles)]
    for model in SHOWN:
        pascal, willow, spair = (result(f"{d}_{model}") for d in ("pf-pascal", "pf-willow", "spair-71k"))
        clean = None if pascal is None else _clean(pascal, model)
        cells = [_at(clean), _at(willow), _at(spair)]
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
        clean = None if pascal is None else _clean(pascal, model)
        cells.append("" if clean is None else f"{_all(clean)} ({clean['pairs']} pairs)")
        rows.append(f"| `{model}` | {' | '.join(cells)} |")
    return "\n".join(rows)


def held_out_table() -> str:
    """All models on the same held-out pairs, the best first."""
    found = {model: record for model in models() if (record := result(f"held_out_{model}"))}
    parts = {
        "pf-pascal/trn": "PF-PASCAL",
        "spair-71k/trn": "SPair-71k",
        "coco/VOC-keypoints": "VOC",
        "mean": "Mean",
    }
    rows = [f"| Model | {' | '.join(parts.values())} | Seen | Calibration |", "|" + "---|" * (len(parts) + 3)]
    for model in sorted(found, key=lambda name: -found[name]["pck"]["mean"][1]):
        one = found[model]
        cells = [" / ".join(f"{value:.1f}" for value in one["pck"][part]) for part in parts]
        seen = sum(one["pairs_of_which_an_image_was_trained_on"].values())
        link = f"[{one['calibration_error']:.1f}](../benchmarks/results/held_out_{model}.json)"
        rows.append(f"| `{model}` | {' | '.join(cells)} | {seen} | {link} |")
    return "\n".join(rows)


def _clean(pascal: dict[str, Any], model: str) -> dict[str, Any] | None:
    """The figures of the leak-free pairs; all pairs are, where nothing was learned from images."""
    clean = pascal.get("leak_free")
    if clean and "pck" in clean:
        return dict(clean)
    return pascal if models()[model].training_images == () else None


def _at(found: dict[str, Any] | None, alpha: str = "0.1") -> str:
    return "" if found is None else f"{found['pck'][alpha]:.1f}"


def _all(found: dict[str, Any]) -> str:
    return " / ".join(f"{value:.1f}" for value in found["pck"].values())


def main() -> None:
    """Write all of them."""
    tables = (
        ("README.md", "figures", short_table()),
        ("docs/models.md", "figures", long_table()),
        ("docs/models.md", "held-out figures", held_out_table()),
    )
    for name, what, table in tables:
        path = ROOT / name
        place = re.compile(rf"(<!-- {what} -->\n).*?(<!-- end of {what} -->)", re.DOTALL)
        text, count = place.subn(rf"\1\n{table}\n\n\2", path.read_text(encoding="utf-8"))
        if count != 1:
            raise SystemExit(f"{name}: wanted one place for {what}, found {count}")
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
