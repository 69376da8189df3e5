"""Files are whole or not there, and nothing else is left beside them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dhpf import InputError
from dhpf.files import cache_folder, check_writable, write_atomically, write_together


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def disc_full(path: Path) -> None:
    path.write_text("half")
    raise OSError(28, "No space left on device")


def test_all_files_are_written(tmp_path: Path) -> None:
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    second.write_text("old")
    write_together({first: lambda place: place.write_text("1"), second: lambda place: place.write_text("2")})
    assert (first.read_text(), second.read_text()) == ("1", "2")
    assert names(tmp_path) == ["a.txt", "b.txt"]


def test_if_one_file_fails_none_is_written(tmp_path: Path) -> None:
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    second.write_text("old")
    with pytest.raises(InputError, match=r"cannot write .*b\.txt: No space left on device"):
        write_together({first: lambda place: place.write_text("1"), second: disc_full})
    assert second.read_text() == "old"
    assert names(tmp_path) == ["b.txt"]


def test_what_a_killed_process_left_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    seen: list[Path] = []
    write_atomically(path, lambda place: (seen.append(place), place.write_text("1")))
    seen[0].write_text("left behind")
    write_atomically(path, lambda place: place.write_text("2"))
    assert path.read_text() == "2"
    assert names(tmp_path) == ["a.txt"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link.txt"
    link.symlink_to(tmp_path / "real" / "file.txt")
    check_writable(link)
    write_atomically(link, lambda place: place.write_text("1"))
    assert link.is_symlink()
    assert (tmp_path / "real" / "file.txt").read_text() == "1"
    assert names(tmp_path) == ["link.txt", "real"]


def test_a_fine_place_is_left_as_it_was(tmp_path: Path) -> None:
    check_writable(tmp_path / "new.txt")
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("place", "complaint"),
    [
        ("folder", "it is a folder"),
        ("missing/a.txt", "there is no folder"),
        ("file.txt/a.txt", "there is no folder"),
        ("x" * 250 + ".txt", "File name too long"),
        ("pipe", "a device or a pipe"),
    ],
)
def test_places_that_cannot_be_written(tmp_path: Path, place: str, complaint: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file.txt").write_text("")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=complaint):
        check_writable(tmp_path / place)
    assert names(tmp_path) == ["file.txt", "folder", "pipe"]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="wants a folder in which nobody can write")
def test_a_folder_in_which_nobody_can_write() -> None:
    with pytest.raises(InputError, match=r"cannot write /proc/a\.txt"):
        check_writable(Path("/proc/a.txt"))


def test_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DHPF_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere")
    monkeypatch.delenv("DHPF_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache_folder() == Path("/caches/dhpf")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert cache_folder() == Path("/home/me/.cache/dhpf")
