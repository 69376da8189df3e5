"""Points: the forms that are read, and the one-line errors for all others."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from dhpf import InputError
from dhpf.points import check_points, parse_points, read_named_points, read_points


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("list.json", "[[1, 2.5], [3, 4]]"),
        ("points.json", '{"points": [[1, 2.5], [3, 4]], "other": 1}'),
        ("written.json", '{"source_points": [[1, 2.5], [3, 4]], "target_points": [[9, 9], [9, 9]]}'),
        ("marked.json", "\ufeff[[1, 2.5], [3, 4]]"),
        ("bare.csv", "1,2.5\n3,4\n"),
        ("headed.csv", "x,y\n1,2.5\n3,4\n"),
        ("loose.CSV", "\ufeffX, Y\r\n\r\n 1 , 2.5\r\n3,4"),
    ],
)
def test_points_files(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_bytes(text.encode())
    assert read_points(path) == [[1.0, 2.5], [3.0, 4.0]]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("by_name.json", '{"left eye": [1, 2.5], "nose": [3, 4]}'),
        ("inside.json", '{"points": {"left eye": [1, 2.5], "nose": [3, 4]}}'),
        (
            "rows.json",
            '[{"name": "left eye", "x": 1, "y": 2.5}, {"name": "nose", "x": 3, "y": 4, "more": 1}]',
        ),
        ("written.json", '{"source_points": [[1, 2.5], [3, 4]], "names": ["left eye", "nose"]}'),
        ("named.csv", "name,x,y\nleft eye,1,2.5\nnose,3,4\n"),
        ("other_order.csv", "Y,X,colour,Name\n2.5,1,red,left eye\n4,3,blue,nose\n"),
    ],
)
def test_named_points(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert read_named_points(path) == ([[1.0, 2.5], [3.0, 4.0]], ("left eye", "nose"))


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        (
            "a.json",
            '{"points": [[1, 2]], "names": ["a", "b"]}',
            "a name of one line for each of its 1 points",
        ),
        ("a.json", '{"points": [[1, 2]], "names": 3}', "a name of one line"),
        ("a.json", '[{"name": "a\\nb", "x": 1, "y": 2}]', "a name of one line"),
        ("a.csv", "name,x,y\n,1,2\n", "a name of one line"),
        ("a.csv", "name,x,y\nnose,1\n", "a row has 2 cells; its header has 3"),
        ("a.json", '{"nose": ["x", 2]}', "point 1 is ['x', 2]"),
    ],
)
def test_bad_names(tmp_path: Path, name: str, text: str, complaint: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError) as raised:
        read_named_points(path)
    assert complaint in str(raised.value) and "\n" not in str(raised.value)


def test_typed_points() -> None:
    assert parse_points("76,136") == ([[76.0, 136.0]], None)
    assert parse_points(" 76,136.5;-0.5,1e1 3,4 ") == ([[76, 136.5], [-0.5, 10], [3, 4]], None)
    for name in ("eyes.csv", "76", "1,2.json", "1,2,3", "a,b", ""):
        assert parse_points(name) is None
    with pytest.raises(InputError, match=r"point 2 is .*; wanted two finite numbers"):
        parse_points("1,2 1.2.3,4")


def test_places_in_the_target_are_read_from_the_same_files(tmp_path: Path) -> None:
    path = tmp_path / "written.json"
    path.write_text('{"source_points": [[1, 2.5]], "target_points": [[9, 8]]}')
    assert read_points(path, "target_points") == [[9.0, 8.0]]
    path.write_text('{"source_points": [[1, 2.5]]}')
    with pytest.raises(InputError, match=r"under 'points'"):
        read_points(path, "target_points")


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("a.json", "[[1, 2], [NaN, 2]]", "point 2 is [nan, 2]; wanted two finite numbers"),
        ("a.json", "[[1e999, 2]]", "point 1 is [inf, 2]"),
        ("a.json", f"[[{'9' * 400}, 2]]", "point 1 is [99"),
        ("a.json", f"[[{'9' * 5000}, 2]]", "too long a number for a points file"),
        ("a.json", '[["\\ud800", 2]]', "point 1 is ['\\ud800', 2]"),
        ("a.json", "[[1, 2, 3]]", "point 1 is [1, 2, 3]"),
        ("a.json", "[1, 2]", "point 1 is 1;"),
        ("a.json", '["12"]', "point 1 is '12'"),
        ("a.json", "[[true, 2]]", "point 1 is [True, 2]"),
        ("a.json", "[[null, 2]]", "point 1 is [None, 2]"),
        ("a.json", '[{"x": 1, "y": 2}]', "point 1 is {"),
        ("a.json", '{"keypoints": []}', "under 'points'"),
        ("a.json", "null", "under 'points'"),
        ("a.json", "[]", "holds no points"),
        ("a.json", "[[1, 2]", "not valid JSON (line 1"),
        ("a.json", "", "not valid JSON"),
        ("a.json", "[" * 100_000, "nests too deeply"),
        ("a.json", '{"points": [[' + "[" * 100_000, "nests too deeply"),
        ("a.csv", "x,y\n", "holds no points"),
        ("a.csv", "1,2\nnan,3\n", "point 2 is ['nan', '3']"),
        ("a.csv", "1;2\n", "point 1 is ['1;2']"),
        ("a.csv", "1\n", "point 1 is ['1']"),
        ("a.csv", "a,b\n", "point 1 is ['a', 'b']"),
        ("a.csv", "1," + "9" * 200_000, "not valid CSV"),
        ("a.csv", "1," + "9" * 400, "point 1 is ['1', '9"),
        ("a.csv", "1,2\0", "is not text"),
    ],
)
def test_bad_points_files_are_named_in_one_short_line(
    tmp_path: Path, name: str, text: str, complaint: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError) as raised:
        read_points(path)
    message = str(raised.value)
    assert message.startswith(str(path))
    assert complaint in message
    assert "\n" not in message
    assert len(message) < len(str(path)) + 120


def test_files_that_are_not_there_or_not_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no such points file: .*none.json"):
        read_points(tmp_path / "none.json")
    with pytest.raises(InputError, match=r"is a folder; wanted a points file"):
        read_points(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    for endless in (Path("/dev/zero"), tmp_path / "pipe"):
        with pytest.raises(InputError, match=r"is a device or a pipe; wanted a points file"):
            read_points(endless)
    large = tmp_path / "large.csv"
    with large.open("wb") as stream:
        stream.truncate(2**40)
    with pytest.raises(InputError, match=r"large\.csv is too large for a points file"):
        read_points(large)
    binary = tmp_path / "photo.json"
    binary.write_bytes(bytes(range(256)))
    with pytest.raises(InputError, match=r"is not text"):
        read_points(binary)


def test_points_on_the_edge_are_inside() -> None:
    """Pixels reach from -0.5 to 59.5; tools that count corners say 0 to 60."""
    corners = [[-0.5, -0.5], [0, 0], [59.5, -0.5], [60, 0], [-0.5, 39.5], [0, 40], [60, 40], [30.5, 20.25]]
    np.testing.assert_array_equal(check_points(corners, (60, 40)), corners)
    assert check_points([], (60, 40)).shape == (0, 2)


@pytest.mark.parametrize(
    ("points", "complaint"),
    [
        ([[1, 2], [61, 2]], r"point 2 at \(61, 2\) lies outside the source photo of 60 x 40 pixels"),
        ([[1, 41]], "outside"),
        ([[-0.6, 2]], r"point 1 at \(-0.6, 2\)"),
        ([[1, -0.6]], r"point 1 at \(1, -0.6\)"),
        ([[60.1, 2]], "outside"),
        ([[1, 2], [3, float("nan")]], r"point 2 is \(3.0, nan\); coordinates must be finite"),
        ([[float("-inf"), 2]], "finite"),
        ([1, 2], r"shape \(2,\); wanted \(K, 2\)"),
        ([[1, 2, 3]], r"shape \(1, 3\)"),
        ([[1, 2], [3]], "must be numbers"),
        ([["a", "b"]], "must be numbers"),
        ([[10**400, 1]], "must be numbers"),
    ],
)
def test_bad_points_are_named(points: object, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        check_points(points, (60, 40))  # type: ignore[arg-type]
