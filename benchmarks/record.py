"""Results with their circumstances: machine, versions, commit, command."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch

from dhpf import InputError
from dhpf.processes import leave

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"


def run(main: Callable[[], None]) -> None:
    """Run a program; what cannot be used of what it was given ends it with one line."""
    try:
        main()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        leave(2)
    leave()


def commit() -> str:
    """The commit that is measured; '+' if the working tree differs from it in more than what is written down
    of it: files of results, the models' cards, the documentation."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    written = re.compile(r"benchmarks/results/|assets/models/[\w.-]+\.json$|docs/|\.md$")
    changed = [line for line in git("status", "--porcelain").splitlines() if not written.search(line)]
    return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")


def machine() -> dict[str, Any]:
    """Processor, cores, memory, versions."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def save_result(name: str, command: str, result: Any, folder: Path = RESULTS) -> Path:
    """Write ``benchmarks/results/NAME.json``, or NAME.json in another folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    when = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    content = {"command": command, "commit": commit(), "date": when, "machine": machine(), "result": result}
    path.write_text(json.dumps(content, indent=1) + "\n")
    print(f"wrote {path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}")
    return path


def write_between(page: Path, mark: str, text: str) -> None:
    """Write a text anew between ``<!-- MARK -->`` and ``<!-- end of MARK -->``."""
    place = re.compile(rf"(<!-- {mark} -->\n).*?(<!-- end of {mark} -->)", re.DOTALL)
    written, count = place.subn(
        lambda found: f"{found[1]}\n{text}\n\n{found[2]}", page.read_text(encoding="utf-8")
    )
    if count != 1:
        raise SystemExit(f"{page.name}: wanted one place for {mark}, found {count}")
    page.write_text(written, encoding="utf-8")
