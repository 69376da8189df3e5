"""Files are whole or not there, nothing else is left beside them, and no input is lost to an output."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dhpf import InputError
from dhpf.files import (
    STDOUT,
    cache_folder,
    check_outputs,
    check_writable,
    read_bytes,
    read_json,
    read_text,
    sha256,
    write_atomically,
    write_together,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_all_files_are_written(tmp_path: Path) -> None:
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    second.write_text("old")
    write_together({first: b"1", second: memoryview(b"2")})
    assert (first.read_text(), second.read_text()) == ("1", "2")
    assert names(tmp_path) == ["a.txt", "b.txt"]
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(first.stat().st_mode) == 0o666 & ~umask  # as of any file that a program writes


def test_if_one_file_fails_none_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    second.write_text("old")
    fsync, synced = os.fsync, []

    def full(descriptor: int) -> None:
        synced.append(descriptor)
        if len(synced) == 2:
            raise OSError(28, "No space left on device")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"cannot write .*b\.txt: No space left on device"):
        write_together({first: b"1", second: b"2"})
    assert second.read_text() == "old"
    assert names(tmp_path) == ["b.txt"]


def test_if_one_file_cannot_be_replaced_none_is(tmp_path: Path) -> None:
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    first.write_text("old")
    second.mkdir()
    with pytest.raises(InputError, match=r"cannot write .*b\.txt: it is a folder"):
        write_together({first: b"new", second: b"new"})
    assert first.read_text() == "old"
    assert names(tmp_path) == ["a.txt", "b.txt"]


def test_content_is_on_the_disc_before_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    replace, fsync = Path.replace, os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (done.append("fsync"), fsync(file)))
    monkeypatch.setattr(Path, "replace", lambda path, to: (done.append("rename"), replace(path, to)))
    write_together({tmp_path / "a.txt": b"1", tmp_path / "b.txt": b"2"})
    assert done == ["fsync", "fsync", "rename", "rename"]
    write_atomically(tmp_path / "c.txt", b"3", durable=False)
    assert done[4:] == ["rename"]


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    """Nor can somebody lay a link where the next temporary file will be."""
    path, victim = tmp_path / "a.txt", tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / ".a.partial.txt").symlink_to(victim)
    (tmp_path / ".a.0123456789abcdef.partial.txt").write_text("of another machine")
    before = names(tmp_path)
    check_writable(path)
    assert names(tmp_path) == before
    write_atomically(path, b"1")
    assert names(tmp_path) == sorted([*before, "a.txt"])
    assert victim.read_text() == "precious"


def test_no_two_temporary_files_have_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    replace = Path.replace
    monkeypatch.setattr(Path, "replace", lambda path, to: (seen.append(path.name), replace(path, to)))
    for _ in range(100):
        write_atomically(tmp_path / "a.txt", b"1", durable=False)
    assert len(set(seen)) == 100


WRITER = """
import sys
from pathlib import Path
from dhpf.files import check_outputs, write_together

a, b, text, mode = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] * 100_000, sys.argv[4]
replace = Path.replace

def slowly(path, to):
    replace(path, to)
    print("renamed", flush=True)
    sys.stdin.readline()

if mode == "slowly":
    Path.replace = slowly
print("ready", flush=True)
sys.stdin.readline()
for _ in range(40 if mode == "often" else 1):
    check_outputs([a, b])
    write_together({a: text.encode(), b: text.encode()}, durable=False)
"""


class Writer:
    """A process that writes the files a.txt and b.txt, full of its letter, a step a line."""

    def __init__(self, folder: Path, letter: str, mode: str) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        command = [sys.executable, "-c", WRITER, folder / "a.txt", folder / "b.txt", letter, mode]
        self.process = subprocess.Popen(command, text=True, **pipes)

    def wait_for(self, line: str) -> None:
        assert self.process.stdout and self.process.stdout.readline() == f"{line}\n"

    def go_on(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> None:
        _, errors = self.process.communicate()
        assert (self.process.returncode, errors) == (0, "")


def test_several_processes_with_the_same_outputs(tmp_path: Path) -> None:
    """All end well, and at every moment each file is whole."""
    writers = [Writer(tmp_path, letter, "often") for letter in "pqrs"]
    for writer in writers:
        writer.wait_for("ready")
    for writer in writers:
        writer.go_on()
    a, b = tmp_path / "a.txt", tmp_path / "b.txt"
    whole = {letter * 100_000 for letter in "pqrs"}
    while any(writer.process.poll() is None for writer in writers):
        for path in (a, b):
            assert not path.exists() or path.read_text() in whole
    for writer in writers:
        writer.end()
    assert a.read_text() == b.read_text()
    assert names(tmp_path) == ["a.txt", "b.txt"]


def test_the_files_of_two_processes_do_not_mix(tmp_path: Path) -> None:
    """One has renamed a file of two when the other comes: that one waits for its turn."""
    slow, quick = Writer(tmp_path, "p", "slowly"), Writer(tmp_path, "q", "once")
    for writer in (slow, quick):
        writer.wait_for("ready")
    slow.go_on()
    slow.wait_for("renamed")
    quick.go_on()
    with pytest.raises(subprocess.TimeoutExpired):
        quick.process.wait(timeout=1)
    slow.go_on()
    slow.end()
    quick.end()
    assert {(tmp_path / name).read_text()[0] for name in names(tmp_path)} == {"q"}


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    """Once it is dead, and not before."""
    writer = Writer(tmp_path, "p", "slowly")
    writer.wait_for("ready")
    writer.go_on()
    writer.wait_for("renamed")
    begun = names(tmp_path)
    assert len(begun) == 2 and begun[1] == "a.txt"  # the other one is temporary still
    check_writable(tmp_path / "c.txt")
    assert names(tmp_path) == begun
    writer.process.kill()
    writer.process.communicate()
    assert names(tmp_path) == begun
    check_writable(tmp_path / "c.txt")
    assert names(tmp_path) == ["a.txt"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link.txt"
    link.symlink_to(tmp_path / "real" / "file.txt")
    check_writable(link)
    write_atomically(link, b"1")
    assert link.is_symlink()
    assert (tmp_path / "real" / "file.txt").read_text() == "1"
    assert names(tmp_path) == ["link.txt", "real"]


def test_standard_output_is_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_together({STDOUT: "é\n".encode(), tmp_path / "a.txt": b"1"})
    assert capsys.readouterr().out == "é\n"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("name", ["new.txt", "x" * 250 + ".txt", "é" * 120 + ".txt", "." + "x" * 254])
def test_names_that_are_fine(tmp_path: Path, name: str) -> None:
    """A long name is as good as a short one, though the temporary file needs one as well."""
    check_writable(tmp_path / name)
    assert names(tmp_path) == []
    write_atomically(tmp_path / name, b"1")
    assert names(tmp_path) == [name]


@pytest.mark.parametrize(
    ("place", "complaint"),
    [
        ("folder", "it is a folder"),
        ("missing/a.txt", "there is no folder"),
        ("file.txt/a.txt", "there is no folder"),
        ("x" * 256, "File name too long"),
        ("pipe", "a device or a pipe"),
        ("loop", "circle of links"),
    ],
)
def test_places_that_cannot_be_written(tmp_path: Path, place: str, complaint: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file.txt").write_text("")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    for attempt in (check_writable, lambda path: write_atomically(path, b"1")):
        with pytest.raises(InputError, match=complaint):
            attempt(tmp_path / place)
        assert names(tmp_path) == ["file.txt", "folder", "loop", "pipe"]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="wants a folder in which nobody can write")
def test_a_folder_in_which_nobody_can_write() -> None:
    with pytest.raises(InputError, match=r"cannot write /proc/a\.txt"):
        check_writable(Path("/proc/a.txt"))


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an input file by many names, and a folder with another."""
    monkeypatch.chdir(tmp_path)
    Path("in.npz").write_text("in")
    Path("soft.npz").symlink_to("in.npz")
    Path("hard.npz").hardlink_to("in.npz")
    Path("here").symlink_to(".")
    Path("data/lists").mkdir(parents=True)
    Path("data/lists/pairs.csv").write_text("list")
    Path("list.csv").symlink_to("data/lists/pairs.csv")
    Path("old.csv").write_text("a result of yesterday")
    return tmp_path


@pytest.mark.parametrize(
    ("outputs", "complaint"),
    [
        ("in.npz", "in.npz is an input; give the output another name"),
        ("./in.npz", "is an input"),
        ("here/in.npz", "is an input"),
        ("soft.npz", "is an input"),
        ("hard.npz", "is an input"),
        ("old.csv none/../in.npz", "is an input"),
        ("data/lists/pairs.csv", "is an input"),
        ("list.csv", "is an input"),
        ("a b a", "two outputs have the same name, a; give each its own"),
        ("a here/a", "two outputs have the same name"),
        ("- a -", "two outputs have the same name"),
    ],
)
def test_outputs_that_would_replace_something(given: Path, outputs: str, complaint: str) -> None:
    before = names(given)
    with pytest.raises(InputError, match=complaint):
        check_outputs(map(Path, outputs.split()), [Path("in.npz"), None, *Path("data").rglob("*.csv")])
    assert names(given) == before


def test_outputs_that_replace_nothing(given: Path) -> None:
    """What an earlier run wrote may be replaced, also beside files that are read."""
    Path("old.txt").hardlink_to("old.csv")  # renaming parts them
    Path("data/lists/old.json").write_text("a result of yesterday")
    outputs = ["-", "data/lists/old.json", "old.csv", "old.txt", "data/lists/new.csv", "in.json"]
    check_outputs(
        [None, *map(Path, outputs)],
        [Path("in.npz"), Path("data/lists/pairs.csv"), Path("no-such-input"), None],
    )


READERS: list[Callable[[Path, str], object]] = [read_bytes, read_text, read_json]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("none.json", "no such recipe: {}"),
        ("folder", "{} is a folder; wanted a recipe"),
        ("pipe", "{} is a device or a pipe; wanted a recipe"),
        ("zero", "{} is a device or a pipe; wanted a recipe"),
        ("loop", "{} cannot be read: Too many levels of symbolic links; wanted a recipe"),
        ("file.json/a", "{} cannot be read: Not a directory; wanted a recipe"),
        ("large.json", "{} is too large for a recipe: 1,099,511,627,776 bytes, at most 67,108,864"),
    ],
)
def test_what_is_not_read(
    tmp_path: Path, read: Callable[[Path, str], object], name: str, complaint: str
) -> None:
    """It is refused at once: a pipe or an endless device is not waited for, a large file takes no memory."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file.json").write_text("1")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to("loop")
    with (tmp_path / "large.json").open("wb") as stream:
        stream.truncate(2**40)  # no bytes on the disc
    with pytest.raises(InputError) as raised:
        read(tmp_path / name, "recipe")
    assert str(raised.value) == complaint.format(tmp_path / name)


def test_what_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\xef\xbb\xbf[1, 2]\r\n")
    assert read_bytes(path, "list", limit=11) == path.read_bytes()
    assert read_text(path, "list") == "[1, 2]\r\n"
    assert read_json(path, "list") == [1, 2]
    with pytest.raises(InputError, match=r"too large for a list: 11 bytes, at most 10"):
        read_bytes(path, "list", limit=10)
    path.write_bytes(b"abc")
    assert sha256(path) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"\xff\xfe", "is not text in UTF-8; wanted a list"),
        (b'["a\0b"]', "is not text in UTF-8; wanted a list"),
        (b"[1,", r"is not valid JSON \(line 1: Expecting value\)"),
        (b"", "is not valid JSON"),
        (b"[" * 100_000, "nests too deeply or has too long a number for a list"),
        (b'{"a":' * 100_000, "nests too deeply or has too long a number for a list"),
        (b"9" * 5000, "nests too deeply or has too long a number for a list"),
    ],
)
def test_what_is_no_json(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"file\.json {complaint}"):
        read_json(path, "list")


def test_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DHPF_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere")
    monkeypatch.delenv("DHPF_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache_folder() == Path("/caches/dhpf")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert cache_folder() == Path("/home/me/.cache/dhpf")


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(_: int) -> None:
        raise KeyError("uid not found")

    for variable in ("DHPF_HOME", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("pwd.getpwuid", nobody)
    with pytest.raises(InputError, match=r"no home folder for downloads; set DHPF_HOME"):
        cache_folder()
