"""The notebook: stored with its outputs, and it runs top to bottom and shows what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient

import dhpf

from .pages import ROOT

NOTEBOOK = ROOT / "notebooks" / "tour.ipynb"


@pytest.fixture
def notebook() -> Any:
    return nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]


def test_stored_with_its_outputs(notebook: Any) -> None:
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))  # top to bottom, once
    outputs = [output for cell in code for output in cell.outputs]
    assert sum("image/jpeg" in output.get("data", {}) for output in outputs) == 6  # small enough to be stored
    assert not any(output.output_type == "error" for output in outputs)
    assert NOTEBOOK.stat().st_size < 2_000_000


def test_runs_top_to_bottom(notebook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(dhpf.__file__).parents[1]))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources=resources).execute()
    printed: dict[str, str] = {}
    pictures = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.output_type == "stream":
                assert output.name == "stdout", output.text
                printed[cell.id] = printed.get(cell.id, "") + output.text
            elif "image/png" in output.get("data", {}):
                pictures.append(cell.id)
    assert pictures == ["load", "truth", "flow", "warp", "scores", "raw"]
    assert printed["flow"] == "(256, 256, 2) (256, 256)\n" and printed["warp"] == "True\n"
    landed = re.findall(r"-> \((\d+), (\d+)\)", printed["points"])
    seen = [[155, 200], [302, 186], [231, 266]]  # the cub's eyes and nose
    assert (np.linalg.norm(np.array(landed, float) - seen, axis=1) < 48).all()
    effects = re.findall(r"layer +\d+ (?:forced in|left out *): the points move by", printed["layers"])
    assert len(effects) == 6
    assert printed["many"].count("left eye at [") == 3
