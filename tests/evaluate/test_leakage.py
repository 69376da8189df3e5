from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dhpf.errors import InputError
from dhpf.evaluate.leakage import leak_free_pairs, read_training_list
from dhpf.evaluate.predictions import PairPrediction, Predictions


@pytest.mark.parametrize(
    ("image", "trained_on", "leaks"),
    [
        ("2008_000001.jpg", "2008_000001.jpg", True),
        ("2008_000001.jpg", "2008_000001", True),
        ("2008_000001.jpg", "JPEGImages/2008_000001.jpg", True),
        ("aeroplane/2008_000001.jpg", "2008_000001.png", True),
        ("aeroplane/2008_000001.jpg", "JPEGImages\\aeroplane\\2008_000001.jpg", True),
        ("Faces/image_0001.jpg", "Leopards/image_0001.jpg", False),
        ("2008_000001.jpg", "2008_0000011.jpg", False),
        ("2008_000001.jpg", "12008_000001.jpg", False),
        ("", "a.jpg", False),
    ],
)
def test_the_same_photo_under_other_names(
    image: str,
    trained_on: str,
    leaks: bool,
    make_pair: Callable[..., PairPrediction],
    make_predictions: Callable[..., Predictions],
) -> None:
    for side in ("source_image", "target_image"):
        predictions = make_predictions(make_pair("a", **{side: image}), make_pair("b"))
        assert leak_free_pairs(predictions, [trained_on]).tolist() == [not leaks, True]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("b.jpg\n\na.jpg\nb.jpg\n", ("a.jpg", "b.jpg")),
        ("2008_1\n", ("2008_1",)),
        (
            "source_image,target_image,class,flip\na.jpg,b.jpg,1,0\nc.jpg,a.jpg,1,1\n",
            ("a.jpg", "b.jpg", "c.jpg"),
        ),
        ("imageA,imageB,XA1\ncar(G)/x.png,car(G)/y.png,3.5\n", ("car(G)/x.png", "car(G)/y.png")),
        ("a.jpg,b.jpg\n", ("a.jpg", "b.jpg")),
        ("000004-2008_000585-2008_004138:aeroplane\n", ("2008_000585", "2008_004138")),
    ],
)
def test_training_lists_of_every_form(text: str, names: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "list").write_text(text)
    assert read_training_list(tmp_path / "list") == names


def test_training_lists_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no such list of training images: .*none"):
        read_training_list(tmp_path / "none")
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(InputError, match="empty: names no image"):
        read_training_list(tmp_path / "empty")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    for name in ("pipe", "endless", "."):
        with pytest.raises(InputError, match="wanted a list of training images"):
            read_training_list(tmp_path / name)
    with (tmp_path / "large").open("wb") as stream:
        stream.truncate(2**40)  # takes no room on the disc
    with pytest.raises(InputError, match="large is too large"):
        read_training_list(tmp_path / "large")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(InputError, match="binary is not text"):
        read_training_list(tmp_path / "binary")
