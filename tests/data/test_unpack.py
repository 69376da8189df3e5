"""Archives, harmless and not."""

from __future__ import annotations

import errno
import io
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def with_flag(archive: Path, flag: int) -> Path:
    """Set a bit of the flags of a zip's only member, in both of its headers."""
    content = bytearray(archive.read_bytes())
    for header, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        content[content.index(header) + offset] |= flag
    archive.write_bytes(content)
    return archive


def test_encrypted_archives_are_named(tmp_path):
    archive = with_flag(zip_of(tmp_path / "a.zip", ("d/one", b"secret" * 10)), 1)
    with pytest.raises(
        InputError, match=r"a\.zip: 'd/one' is encrypted; unpack it yourself, with its password"
    ):
        unpack(archive, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_unknown_compression_is_named(tmp_path):
    archive = zip_of(tmp_path / "a.zip", ("one", b"1"))
    content = bytearray(archive.read_bytes())
    for header, offset in ((b"PK\3\4", 8), (b"PK\1\2", 10)):
        content[content.index(header) + offset] = 99  # what encrypting programs write
    archive.write_bytes(content)
    with pytest.raises(InputError, match=r"a\.zip: not a readable zip or tar archive \("):
        unpack(archive, tmp_path / "out")


def test_a_changed_byte_is_found(tmp_path):
    archive = zip_of(tmp_path / "a.zip", ("one", b"0123456789"))
    archive.write_bytes(archive.read_bytes().replace(b"0123456789", b"0123X56789"))
    with pytest.raises(InputError, match=r"a\.zip: not a readable zip or tar archive \(Bad CRC"):
        unpack(archive, tmp_path / "out")


@given(
    kind=st.sampled_from(["zip", "gz", "xz", "bz2", "tar"]),
    changes=st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), max_size=4),
    cut=st.floats(0, 1) | st.just(1.0),
)
def test_damaged_archives_unpack_or_give_the_one_error(tmp_path_factory, kind, changes, cut):
    folder = tmp_path_factory.mktemp("damaged")
    path = folder / f"a.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
            packed.writestr("d/one", bytes(range(256)))
    else:
        with tarfile.open(path, f"w:{'' if kind == 'tar' else kind}") as packed:
            packed.addfile(special("link", tarfile.SYMTYPE, "d/one"))
            info = tarfile.TarInfo("d/one")
            info.size = 256
            packed.addfile(info, io.BytesIO(bytes(range(256))))
    content = bytearray(path.read_bytes())
    for place, value in changes:
        content[int(place * len(content))] = value
    path.write_bytes(content[: int(len(content) * cut)])
    try:
        unpack(path, folder / "out")
    except InputError as error:
        assert "\n" not in str(error)
    assert {p.name for p in folder.iterdir()} <= {path.name, "out"}


def test_what_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("dhpf.data.unpack.MOST_BYTES", 3_000_000)
    for make in (tar_of, zip_of):
        archive = make(tmp_path / make.__name__, ("one", bytes(2_000_000)), ("two", bytes(2_000_000)))
        with pytest.raises(InputError, match="refused, it unpacks to more than 3,000,000 bytes"):
            unpack(archive, tmp_path / "out")


def test_a_folder_that_cannot_be_written_is_not_the_archives_fault(tmp_path, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    archive = zip_of(tmp_path / "a.zip", ("one", b"1"))
    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(OSError, match="No space left"):
        unpack(archive, tmp_path / "out")


def test_a_web_page_is_no_archive(tmp_path):
    (tmp_path / "a.zip").write_text("<html>moved</html>")
    with pytest.raises(InputError, match=r"a\.zip: not a readable zip or tar archive"):
        unpack(tmp_path / "a.zip", tmp_path / "out")
    with pytest.raises(InputError, match=r"b\.zip: the archive is missing"):
        unpack(tmp_path / "b.zip", tmp_path / "out")
