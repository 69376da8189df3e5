"""The beam search for static layers on PF-PASCAL's validation pairs, less those that are test pairs.

    python -m benchmarks.beam_search PF-PASCAL [--model hpf-resnet50]

At the end, the layers found and those of the model are compared once more by the ordinary predictions, on all
those pairs.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.record import save_result
from dhpf import Matcher, load
from dhpf.data import PairDataset, open_dataset
from dhpf.evaluate.beam_search import Scored, Step
from dhpf.evaluate.layer_search import search_layers
from dhpf.evaluate.predict import predict
from dhpf.evaluate.predictions import Predictions
from dhpf.evaluate.score import score_predictions
from dhpf.evaluate.tables import to_dict
from dhpf.methods.hpf import HPF
from dhpf.zoo import UNTRAINED


def on_all_pairs(
    matcher: Matcher, layers: tuple[int, ...], pairs: PairDataset, without: PairDataset
) -> dict[str, Any]:
    """PCK and its intervals with these layers."""
    method = HPF(matcher.method.backbone, replace(matcher.method.config, layers=layers))
    fixed = Matcher(method, f"layers {layers}", matcher.size, matcher.device)
    with tempfile.TemporaryDirectory() as folder:
        predictions = predict(fixed, pairs, Path(folder) / "predictions.npz").predictions
    if predictions is None:
        raise SystemExit("run it as one process")
    taken = {frozenset((entry.source, entry.target)) for entry in without.entries}
    free = {e.id for e in pairs.entries if frozenset((e.source, e.target)) not in taken}
    kept = [predictions.pair(index) for index, name in enumerate(predictions.pair_ids) if name in free]
    rest = Predictions.of_pairs(
        kept, dataset=pairs.name, split=pairs.split, model=fixed.name, commit=predictions.commit
    )
    figures = to_dict(score_predictions(rest))
    return {"layers": layers} | {name: figures[name] for name in ("pairs", "pck", "interval", "protocol")}


def show(step: Step) -> None:
    """Print the beam."""
    best: Scored = step.beam[0]
    print(f"{len(best.layers)} layers, {step.tried} tried:", *step.beam, sep="\n  ", flush=True)


def main() -> None:
    """Search, compare, record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("root", type=Path)
    parser.add_argument("--model", default=UNTRAINED)
    parser.add_argument("--every", type=int, default=1, help="search on every n-th pair")
    parser.add_argument("--layers", type=int, default=8, help="at most")
    arguments = parser.parse_args()
    matcher = load(arguments.model)
    pairs, test = (open_dataset("pf-pascal", arguments.root, split) for split in ("val", "test"))
    start = time.perf_counter()
    search = search_layers(
        matcher, pairs, exclude=test, every=arguments.every, most_layers=arguments.layers, report=show
    )
    seconds = time.perf_counter() - start
    compared = [on_all_pairs(matcher, s.layers, pairs, test) for s in (search.found, search.reference)]
    print(*compared, sep="\n")
    command = f"dhpf beam-search --model {arguments.model} --dataset pf-pascal --root PF-PASCAL --split val "
    save_result(
        f"beam_search_{arguments.model.removeprefix('hpf-')}",
        command + f"--exclude-pairs-of test --every {arguments.every} --max-layers {arguments.layers}",
        search.to_dict() | {"on_all_pairs": compared, "seconds": round(seconds)},
    )


if __name__ == "__main__":
    main()
