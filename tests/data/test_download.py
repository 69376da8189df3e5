"""Downloading from a server on this machine that cuts, lies and refuses."""

from __future__ import annotations

import errno
import hashlib
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from dhpf.data import download as module
from dhpf.data.download import download, fetch
from dhpf.data.mini import make_mini
from dhpf.data.registry import DATASETS, DatasetInfo, RemoteFile, open_dataset
from dhpf.errors import InputError

CONTENT = bytes(range(256)) * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
PAGE = "https://example.org/official"


class Server(ThreadingHTTPServer):
    """Serves ``files``; ``cuts`` says after how many bytes to drop the next answers."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.cuts: list[int] = []
        self.ranges = True
        self.version = '"1"'
        self.asked: list[str | None] = []  # the Range of each request

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{name}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.headers["Range"])
        content = self.server.files.get(self.path[1:])
        if content is None:
            return self.send_error(404)
        start = 0
        same = self.headers["If-Range"] in (None, self.server.version)
        if self.headers["Range"] and self.server.ranges and same:
            start = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                return self.send_error(416)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(content) - start))
        self.send_header("ETag", self.server.version)
        self.end_headers()
        body = content[start:]
        self.wfile.write(body[: self.server.cuts.pop(0)] if self.server.cuts else body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Server() as server:
        server.files["big.bin"] = CONTENT
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def remote(server: Server, sha256: str | None = SHA256) -> RemoteFile:
    return RemoteFile(server.url("big.bin"), "big.bin", sha256)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_file_arrives_and_is_verified(server, tmp_path):
    fetched = fetch(remote(server), tmp_path, PAGE)
    assert fetched.path.read_bytes() == CONTENT
    assert (fetched.sha256, fetched.verified) == (SHA256, True)
    assert names(tmp_path) == {"big.bin"}


def test_without_a_published_checksum_it_says_so(server, tmp_path):
    fetched = fetch(remote(server, None), tmp_path, PAGE)
    assert (fetched.sha256, fetched.verified) == (SHA256, False)


def test_a_cut_connection_is_continued_where_it_was_cut(server, tmp_path):
    server.cuts = [100_000, 50_000]
    assert fetch(remote(server), tmp_path, PAGE).path.read_bytes() == CONTENT
    assert server.asked == [None, "bytes=100000-", "bytes=150000-"]


def test_a_later_run_resumes_a_partial_file(server, tmp_path):
    server.cuts = [100_000, 0]
    with pytest.raises(InputError, match=r"lost after 100000 of 256000 bytes\); run again to resume"):
        fetch(remote(server), tmp_path, PAGE)
    assert not (tmp_path / "big.bin").exists()
    assert fetch(remote(server), tmp_path, PAGE).path.read_bytes() == CONTENT
    assert server.asked[-1] == "bytes=100000-"


def test_a_server_that_cannot_resume_starts_again(server, tmp_path):
    server.ranges = False
    (tmp_path / "big.bin.part").write_bytes(CONTENT[:1000])
    assert fetch(remote(server), tmp_path, PAGE).path.read_bytes() == CONTENT


def test_a_file_that_changed_on_the_server_is_not_mixed(server, tmp_path):
    server.cuts = [100_000, 0]
    with pytest.raises(InputError):
        fetch(remote(server, None), tmp_path, PAGE)
    server.files["big.bin"], server.version = CONTENT[::-1], '"2"'
    assert fetch(remote(server, None), tmp_path, PAGE).path.read_bytes() == CONTENT[::-1]


@pytest.mark.parametrize("extra", [b"", b"more than there is"])
def test_a_partial_file_with_nothing_to_add_is_fetched_anew(server, tmp_path, extra):
    (tmp_path / "big.bin.part").write_bytes(CONTENT + extra)
    assert fetch(remote(server), tmp_path, PAGE).path.read_bytes() == CONTENT


def test_a_wrong_checksum_leaves_nothing_that_looks_complete(server, tmp_path):
    server.files["big.bin"] = b"something else"
    with pytest.raises(
        InputError, match=rf"but {SHA256} is wanted; it was moved to .*big\.bin\.damaged; .*{PAGE}"
    ):
        fetch(remote(server), tmp_path, PAGE)
    assert names(tmp_path) == {"big.bin.damaged"}
    server.files["big.bin"] = CONTENT
    assert fetch(remote(server), tmp_path, PAGE).verified


def test_a_file_put_there_by_hand_is_used_if_it_is_the_right_one(server, tmp_path):
    (tmp_path / "big.bin").write_bytes(CONTENT)
    assert fetch(remote(server), tmp_path, PAGE).verified
    assert server.asked == []


def test_a_dead_address_says_what_to_do_by_hand(server, tmp_path):
    del server.files["big.bin"]
    by_hand = rf"get the file from {PAGE} and put it at {tmp_path / 'big.bin'}"
    with pytest.raises(InputError, match=rf"big\.bin \(HTTP Error 404: Not Found\); .*{by_hand}"):
        fetch(remote(server), tmp_path, PAGE)
    assert names(tmp_path) == set()
    gone = RemoteFile("http://127.0.0.1:1/big.bin", "big.bin")
    with pytest.raises(InputError, match=by_hand):
        fetch(gone, tmp_path, PAGE)


@pytest.fixture
def willow(server, tmp_path, monkeypatch) -> DatasetInfo:
    """A PF-WILLOW on the server, in the shape of the official archive."""
    make_mini("pf-willow", tmp_path / "made")
    archive = tmp_path / "made.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for file in sorted((tmp_path / "made").rglob("*.*")):
            if file.suffix != ".csv":
                packed.write(file, Path("PF-dataset") / file.relative_to(tmp_path / "made"))
        packed.writestr("__MACOSX/junk", b"")
    server.files["data.zip"] = archive.read_bytes()
    server.files["pairs.csv"] = (tmp_path / "made" / "test_pairs.csv").read_bytes()
    files = (
        RemoteFile(server.url("data.zip"), "data.zip", top="PF-dataset"),
        RemoteFile(server.url("pairs.csv"), "test_pairs.csv"),
    )
    info = DatasetInfo(**{**vars(DATASETS["pf-willow"]), "files": files})
    monkeypatch.setitem(DATASETS, "pf-willow", info)
    monkeypatch.setenv("DHPF_HOME", str(tmp_path / "home"))
    return info


def test_a_whole_data_set_is_unpacked_to_the_folder_of_the_variable(server, willow, tmp_path):
    folder, files = download("pf-willow")
    assert folder == tmp_path / "home" / "datasets" / "PF-WILLOW"
    assert [file.verified for file in files] == [False, False]
    assert names(folder) == {"car(G)", "duck(S)", "test_pairs.csv"}
    assert len(open_dataset("pf-willow", folder)[5].source.points) == 10
    asked = len(server.asked)
    assert download("pf-willow") == (folder, ())
    assert len(server.asked) == asked


def test_an_unsafe_or_strange_archive_leaves_no_data_set(server, willow, tmp_path):
    for name, message in (("../evil", "points out"), ("other/file", "has no folder 'PF-dataset'")):
        with zipfile.ZipFile(tmp_path / "bad.zip", "w") as packed:
            packed.writestr(name, b"1")
        server.files["data.zip"] = (tmp_path / "bad.zip").read_bytes()
        with pytest.raises(InputError, match=rf"data\.zip: .*{message}.*{willow.page}"):
            download("pf-willow")
        assert names(tmp_path / "home" / "datasets") == set()
        assert names(tmp_path / "home" / "downloads") >= {"data.zip.damaged"}
        assert not (tmp_path / "home" / "downloads" / "data.zip").exists()


def test_a_full_disk_does_not_condemn_the_archive(willow, tmp_path, monkeypatch):
    def full(archive: Path, folder: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, "unpack", full)
    with pytest.raises(InputError, match=r"cannot write .*PF-WILLOW: No space left on device; make room"):
        download("pf-willow")
    assert names(tmp_path / "home" / "downloads") == {"data.zip", "test_pairs.csv"}
    assert names(tmp_path / "home" / "datasets") == set()


def test_archives_in_archives(server, tmp_path):
    with zipfile.ZipFile(tmp_path / "inner.zip", "w") as packed:
        packed.writestr("101_ObjectCategories/cup/image.jpg", b"cup")
    with zipfile.ZipFile(tmp_path / "outer.zip", "w") as packed:
        packed.write(tmp_path / "inner.zip", "caltech-101/inner.zip")
    outer = RemoteFile("", "outer.zip", top="caltech-101", inner=("inner.zip",))
    info = DatasetInfo(**{**vars(DATASETS["caltech-101"]), "files": (outer,)})
    (tmp_path / "unpacked").mkdir()
    ready = module._assemble(info, tmp_path, tmp_path / "unpacked")
    assert names(ready) == {"101_ObjectCategories"}
    assert (ready / "101_ObjectCategories" / "cup" / "image.jpg").read_bytes() == b"cup"


def test_the_addresses_are_complete():
    for info in DATASETS.values():
        assert info.page.startswith("https://")
        if not info.files:
            assert info.name == "coco"
            continue
        assert [file.top for file in info.files].count(None) == len(info.files) - 1  # one archive each
        for file in info.files:
            assert file.url.startswith("https://")
            assert file.sha256 is None or len(file.sha256) == 64
