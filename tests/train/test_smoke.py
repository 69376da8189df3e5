"""Training learns: as ``make train-smoke``, but for half the time."""

from __future__ import annotations

from .smoke import check, learn


def test_training_beats_the_untrained_head(tmp_path):
    before, history = learn(tmp_path, "run.epochs=3", "data.validation_pairs=12")
    check(before, history, gain=15.0, fall=0.8)
