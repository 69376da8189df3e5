"""Annotation files of strangers: bounded, regular, and wrong in one line."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.io import savemat

from dhpf.data.annotations import (
    MOST_BYTES,
    MOST_BYTES_JSON,
    MOST_BYTES_MATRIX,
    Row,
    inner_path,
    points_out,
    read_matrix,
    read_object,
    read_rows,
)
from dhpf.errors import InputError

READERS = {
    "pairs.csv": read_rows,
    "pair.json": read_object,
    "points.mat": lambda path: read_matrix(path, "kps"),
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
@pytest.mark.parametrize("name", READERS)
def test_pipes_devices_and_folders_are_not_read(tmp_path, name):
    os.mkfifo(tmp_path / name)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path in (tmp_path / name, Path("/dev/zero"), tmp_path):
        with pytest.raises(
            InputError, match=r"is a (folder|device or a pipe); wanted a (pair list|file of annotations)"
        ):
            READERS[name](path)
    with pytest.raises(InputError, match="loop cannot be read"):
        READERS[name](tmp_path / "loop")


@pytest.mark.parametrize(
    ("name", "limit"),
    [("pairs.csv", MOST_BYTES), ("pair.json", MOST_BYTES_JSON), ("points.mat", MOST_BYTES_MATRIX)],
)
def test_files_that_are_too_large_are_not_read(tmp_path, name, limit):
    with (tmp_path / name).open("wb") as file:
        file.truncate(limit + 1)
    with pytest.raises(InputError, match=rf"{name} is too large for a .*, at most {limit:,}"):
        READERS[name](tmp_path / name)


@pytest.mark.parametrize("name", READERS)
@given(content=st.binary(max_size=300))
def test_any_bytes_give_values_or_the_one_error(tmp_path_factory, name, content):
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(content)
    try:
        READERS[name](path)
    except InputError as error:
        assert "\n" not in str(error)
        assert len(str(error)) < 500


def test_a_matrix_that_lies_about_its_size_is_named(tmp_path):
    """A compressed element of 60 MB in 60 kB."""
    savemat(tmp_path / "whole.mat", {"kps": np.zeros((3, 2))})
    header = (tmp_path / "whole.mat").read_bytes()[:128]
    packed = zlib.compress(bytes(60_000_000))
    (tmp_path / "bomb.mat").write_bytes(
        header + (15).to_bytes(4, "little") + len(packed).to_bytes(4, "little") + packed
    )
    with pytest.raises(InputError, match=r"bomb\.mat is not an annotation"):
        read_matrix(tmp_path / "bomb.mat", "kps")


def test_other_variables_of_a_matlab_file_do_not_matter(tmp_path):
    savemat(
        tmp_path / "a.mat", {"kps": [[1, 2], [3, 4]], "note": "hello", "cells": np.array([1, "a"], object)}
    )
    assert read_matrix(tmp_path / "a.mat", "kps").tolist() == [[1, 2], [3, 4]]


def row(text: str) -> Row:
    return Row(Path("list.csv"), 2, {"X": text})


@pytest.mark.parametrize("text", ["1;2.5;-3", "1,2.5,-3", " 1 ; 2.5 , -3 "])
def test_both_separators_of_numbers(text):
    assert row(text).numbers("X").tolist() == [1, 2.5, -3]


def test_no_numbers():
    assert row(" ").numbers("X").tolist() == []


def test_a_long_bad_cell_is_cut_short():
    with pytest.raises(
        InputError, match=r"^list\.csv, line 2: X is '1;2.* \.\.\.', but numbers between"
    ) as raised:
        row("1;2;" * 1000).numbers("X")
    assert len(str(raised.value)) < 150
    with pytest.raises(InputError, match="but a whole number is wanted"):
        row("9" * 5000 + "x").integer("X")


@pytest.mark.parametrize("name", ["/a", "..", "a/../../b", "C:/a", "C:a", "\\a", "//host/a", "a\\..\\b"])
def test_names_that_leave_their_folder(name):
    assert points_out(name)
    with pytest.raises(InputError, match="but a path inside the data set's folder is wanted"):
        inner_path(name, "list, line 2: image")


@pytest.mark.parametrize("name", ["", ".", "a\nb", "a\0b"])
def test_names_that_are_none(name):
    with pytest.raises(InputError, match="list, line 2: image is "):
        inner_path(name, "list, line 2: image")


@pytest.mark.parametrize("name", ["a", "a/b.jpg", "./a/b.jpg", "a\\b.jpg", "..a/b..jpg", "car(G)/x"])
def test_names_that_stay(name):
    path = inner_path(name, "")
    assert not path.is_absolute()
    assert path.name in name


@pytest.mark.parametrize("text", ["/home/me/PF/car(G)/a.png", "C:\\PF\\car(G)\\a.png", "car(G)/a.png"])
def test_folders_before_the_last_do_not_matter(text):
    assert row(text).path("X", 2) == Path("car(G)/a.png")
