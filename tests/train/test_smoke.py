"""Training learns: as ``make train-smoke``, on fewer and smaller pairs."""

from __future__ import annotations

from .smoke import check, learn


def test_training_beats_the_untrained_head(tmp_path):
    before, history = learn(tmp_path, "model.size=[64, 64]", "run.epochs=4", "run.batch=3", groups=3)
    check(before, history, gain=10.0)
