"""The page on protocols: its example runs, and it names everything that there is."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from dhpf.evaluate.predictions import LAYOUT, Predictions
from dhpf.evaluate.protocol import CHOICES, PRESETS, protocol_for
from dhpf.evaluate.score import score_predictions

PAGE = (Path(__file__).parents[2] / "docs" / "protocols.md").read_text(encoding="utf-8")


def test_the_example_writes_a_file_that_can_be_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    example = next(block for block in re.findall(r"```python\n(.*?)```", PAGE, re.S) if "savez" in block)
    assert "dhpf." not in example and "import dhpf" not in example  # NumPy alone
    exec(example, {})
    [file] = tmp_path.glob("*.npz")
    predictions = Predictions.load(file)
    values = score_predictions(predictions, protocol_for(predictions.dataset)).overall.values
    np.testing.assert_allclose(values, [25, 75, 75])  # as the page says


def test_every_array_preset_and_value_is_described() -> None:
    for name in (*LAYOUT, *PRESETS, *(value for values in CHOICES.values() for value in values)):
        assert f"`{name}`" in PAGE, name
