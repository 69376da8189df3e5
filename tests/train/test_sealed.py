"""Features in files: all that a method made of an image comes back, of whatever kind it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from dhpf.backbones.base import Features, Regions
from dhpf.grid import Grid
from dhpf.train.sealed import as_features, as_tensors, seal, unseal

GRID = Grid(2, 3, stride=4.0)
PLAIN = Features(
    {11: torch.full((2, 3, 2), 0.5), 2: torch.ones(2, 3, 4)}, {11: torch.ones(2), 2: torch.ones(4)}, GRID
)


def kept(features: Features, path: Path) -> Features:
    path.write_bytes(seal(as_tensors(features), "mine"))
    found = unseal(path)
    assert found is not None and found[1] == "mine"
    return as_features(found[0], GRID)


def test_what_a_method_made_of_an_image_comes_back(tmp_path: Path) -> None:
    regions = Regions(torch.tensor([[0.0, 1.0, 5.5, 7.25]]), torch.tensor([[0.6, 0.8]]))
    tokens = {2: torch.rand(5, 4), 11: torch.rand(5, 2)}
    full = replace(PLAIN, foreground=torch.rand(2, 3), transformed=True, regions=regions, tokens=tokens)
    found = kept(full, tmp_path / "full")
    assert found.transformed and found.grid == GRID and [*found.blocks] == [*found.pooled] == [2, 11]
    torch.testing.assert_close(found.foreground, full.foreground, rtol=0, atol=0)
    torch.testing.assert_close(found.regions, regions, rtol=0, atol=0)
    torch.testing.assert_close(dict(found.tokens), tokens, rtol=0, atol=0)
    assert full.nbytes == PLAIN.nbytes + 4 * (2 * 3 + 1 * 4 + 1 * 2 + 5 * 4 + 5 * 2)
    moved = full.to(torch.device("cpu"), torch.float64)
    assert (moved.transformed, moved.regions, moved.foreground is None) == (True, regions, False)
    assert {block.dtype for block in moved.blocks.values()} == {torch.float64}


def test_a_backbones_features_are_in_files_as_ever(tmp_path: Path) -> None:
    """So that what trainings wrote before can be read."""
    assert {*as_tensors(PLAIN)} == {"block.11", "block.2", "pooled.11", "pooled.2"}
    found = kept(PLAIN, tmp_path / "plain")
    assert (found.transformed, found.foreground, found.regions) == (False, None, None)
    torch.testing.assert_close(found.blocks[11].float(), PLAIN.blocks[11], rtol=0, atol=0)
