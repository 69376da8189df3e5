"""Short trainings with equal budgets, one for each row of an ablation, judged on held-out pairs.

    python -m benchmarks.ablation DATA RUNS [--only mu-0.3 squared ...]

DATA holds the folder PF-PASCAL. RUNS keeps the runs: stopped, the same command resumes. Each row is a recipe
of ``ablation/``; the validation pairs are PF-PASCAL's, without test pairs; no image of them is trained on.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks.record import save_result
from dhpf.train.loop import train
from dhpf.train.recipe import RECIPES as BUNDLED
from dhpf.train.recipe import read_recipe

RECIPES = BUNDLED / "ablation"
BASE = "base"


def row(name: str, data: Path, runs: Path) -> dict[str, Any]:
    """Train one recipe and say what it reached in its last epoch."""
    config = read_recipe(RECIPES / f"{name}.toml", [f"data.root={data}"])
    out = runs / name
    train(config, out, resume=True, features=runs / "features")
    history = json.loads((out / "history.json").read_text(encoding="utf-8"))
    last = history[-1]
    return {
        "epochs": len(history),
        "validation_pck_0.1": round(last["val mean"], 1),
        "training_pck_0.1": round(last["pck"], 1),
        "layers": round(last["val layers"], 1),
        "matching_loss": round(last["match"], 3),
    }


def main() -> None:
    """Train all rows and record them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("runs", type=Path)
    names = sorted(path.stem for path in RECIPES.glob("*.toml") if path.stem != BASE)
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    arguments = parser.parse_args()
    rows = {}
    for name in arguments.only:
        rows[name] = row(name, arguments.data, arguments.runs)
        print(name, rows[name], flush=True)
    chosen = " ".join(arguments.only)
    save_result("ablation", f"python -m benchmarks.ablation DATA RUNS --only {chosen}", {"rows": rows})


if __name__ == "__main__":
    main()
