"""The same in Python: what is given wrongly is an InputError of one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.inputs import photo

import dhpf
from dhpf.analysis.report import write_contents
from dhpf.data.mini import make_mini
from dhpf.train.config import make_config

PHOTO = np.asarray(photo(64, 48, 0))
TENSOR = torch.zeros(3, 48, 64)

GIVEN: dict[str, Callable[[dhpf.Matcher], object]] = {
    "a sparse tensor": lambda matcher: matcher.match(TENSOR.to_sparse(), PHOTO),
    "a tensor without values": lambda matcher: matcher.match(PHOTO, TENSOR.to("meta")),
    "a quantised tensor": lambda matcher: matcher.match(PHOTO, torch.zeros(3, 48, 64, dtype=torch.complex64)),
    "no image": lambda matcher: matcher.match(None, PHOTO),  # type: ignore[arg-type]
    "no keypoints": lambda matcher: matcher.match(PHOTO, PHOTO).keypoints(0),
    "fewer than no keypoints": lambda matcher: matcher.match(PHOTO, PHOTO).keypoints(-3),
    "points outside": lambda matcher: matcher.match(PHOTO, PHOTO).transfer([[1e9, 1]]),
    "points that are none": lambda matcher: matcher.match(PHOTO, PHOTO).transfer([[np.nan, 1]]),
    "an empty name": lambda matcher: dhpf.load(""),
    "a size of nothing": lambda matcher: dhpf.load("hpf-resnet50", 0),
    "a device that is none": lambda matcher: dhpf.load("hpf-resnet50", device="sparse"),
    "a negative seed": lambda matcher: make_config({"run": {"seed": -1}}, "recipe"),
    "a rate beyond all": lambda matcher: make_config({"optimiser": {"rate": 1e30}}, "recipe"),
    "a negative seed of a mini data set": lambda matcher: make_mini("pf-pascal", "never-made", seed=-1),
}


@pytest.mark.parametrize("given", GIVEN)
def test_refused(given: str, quick: dhpf.Matcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(dhpf.InputError) as raised:
        GIVEN[given](quick)
    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_a_report_replaces_no_input(tmp_path: Path) -> None:
    (tmp_path / "pair.png").write_bytes(b"a photo")
    with pytest.raises(dhpf.InputError, match=r"pair\.png is an input"):
        write_contents(tmp_path, {"pair.csv": b"1", "pair.png": b"2"}, [tmp_path / "pair.png", None])
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"a photo"]
