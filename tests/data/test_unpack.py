"""Archives, harmless and not."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from dhpf.data.unpack import unpack
from dhpf.errors import InputError


def tar_of(path: Path, *members: tarfile.TarInfo | tuple[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                archive.addfile(info, io.BytesIO(member[1]))
    return path


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def zip_of(path: Path, *members: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("make", [tar_of, zip_of])
def test_files_and_folders_arrive(tmp_path, make):
    archive = make(tmp_path / "a", ("d/one.txt", b"1"), ("d/e/two:x.txt", b"22"))
    unpack(archive, tmp_path / "out")
    assert contents(tmp_path / "out") == {"d/one.txt": b"1", "d/e/two:x.txt": b"22"}


@pytest.mark.parametrize("make", [tar_of, zip_of])
@pytest.mark.parametrize("name", ["../evil", "d/../../evil", "/evil", "d\\..\\..\\evil", "C:/evil", "\\evil"])
def test_names_that_leave_are_refused_before_anything_is_written(tmp_path, make, name):
    archive = make(tmp_path / "a", ("good", b"1"), (name, b"2"))
    with pytest.raises(InputError, match=r"a: refused, .*evil' points out of the archive's folder"):
        unpack(archive, tmp_path / "deep" / "out")
    assert not (tmp_path / "deep").exists()
    assert {p.name for p in tmp_path.iterdir()} == {"a"}


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
@pytest.mark.parametrize("target", ["/etc/passwd", "../../secret"])
def test_links_out_are_refused(tmp_path, kind, target):
    archive = tar_of(tmp_path / "a", special("link", kind, target))
    with pytest.raises(InputError, match=r"refused, .* points out"):
        unpack(archive, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
def test_links_within_become_copies(tmp_path, kind):
    archive = tar_of(tmp_path / "a", ("one", b"1"), special("two", kind, "one"))
    unpack(archive, tmp_path / "out")
    assert contents(tmp_path / "out") == {"one": b"1", "two": b"1"}
    assert not (tmp_path / "out" / "two").is_symlink()
    assert (tmp_path / "out" / "two").stat().st_nlink == 1


def test_a_file_through_a_linked_folder_stays_inside(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    archive = tar_of(tmp_path / "a", special("d", tarfile.SYMTYPE, str(outside)), ("d/evil", b"1"))
    with pytest.raises(InputError, match="refused"):
        unpack(archive, tmp_path / "out")
    assert not list(outside.iterdir())


@pytest.mark.parametrize("members", [[("x", "y"), ("y", "x")], [("x", "absent")]])
def test_links_to_nothing_are_refused(tmp_path, members):
    archive = tar_of(tmp_path / "a", *(special(name, tarfile.SYMTYPE, target) for name, target in members))
    with pytest.raises(InputError, match="the link 'x' points to no file"):
        unpack(archive, tmp_path / "out")


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_devices_and_pipes_are_refused(tmp_path, kind):
    with pytest.raises(InputError, match="'dev' is neither a file nor a folder"):
        unpack(tar_of(tmp_path / "a", special("dev", kind)), tmp_path / "out")


def test_links_in_zip_archives_are_refused(tmp_path):
    info = zipfile.ZipInfo("link")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with pytest.raises(InputError, match="'link' is neither a file nor a folder"):
        unpack(zip_of(tmp_path / "a", (info, b"/etc/passwd")), tmp_path / "out")


@pytest.mark.parametrize("make", [tar_of, zip_of])
def test_cut_archives_are_named(tmp_path, make):
    archive = make(tmp_path / "a", ("one", bytes(range(256)) * 40))
    archive.write_bytes(archive.read_bytes()[:-40])
    with pytest.raises(InputError, match="a: not a readable zip or tar archive"):
        unpack(archive, tmp_path / "out")


def test_a_web_page_is_no_archive(tmp_path):
    (tmp_path / "a.zip").write_text("<html>moved</html>")
    with pytest.raises(InputError, match=r"a\.zip: not a readable zip or tar archive"):
        unpack(tmp_path / "a.zip", tmp_path / "out")
    with pytest.raises(InputError, match=r"b\.zip: the archive is missing"):
        unpack(tmp_path / "b.zip", tmp_path / "out")
