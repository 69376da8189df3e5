"""Files that strangers made: each is refused in one line, before it takes memory or time."""

from __future__ import annotations

import io
import os
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhpf.errors import InputError
from dhpf.evaluate.predictions import Predictions
from dhpf.evaluate.storage import pack_arrays, read_arrays

FEW_BYTES = 20 * 2**20  # what refusing a file may take


def refused(path: Path, message: str) -> None:
    """Reading the file is an error of one line, and takes little memory."""
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=message) as error:
            read_arrays(path)
        assert tracemalloc.get_traced_memory()[1] < FEW_BYTES
    finally:
        tracemalloc.stop()
    assert "\n" not in str(error.value) and str(path) in str(error.value)


def npy(shape: tuple[int, ...], dtype: str = "<f8", data: bytes = b"") -> bytes:
    """An array file whose header says what it likes."""
    stream = io.BytesIO()
    header = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue() + data


def write_zip(
    path: Path, content: bytes, method: int = zipfile.ZIP_DEFLATED, says: int | None = None
) -> Path:
    """A zip file with one array; its directory may lie about the size."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", content, method)
        if says is not None:
            archive.filelist[0].file_size = says
    return path


def test_arrays_come_back_as_they_were(tmp_path: Path) -> None:
    arrays = {
        "numbers": np.arange(6.0).reshape(2, 3),
        "columns": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "names": np.array(["a", "bcd"]),
        "one": np.array("text"),
        "none": np.empty((0, 2)),
        "big endian": np.arange(3, dtype=">i4"),
    }
    (tmp_path / "a.npz").write_bytes(pack_arrays(arrays))
    found = read_arrays(tmp_path / "a.npz")
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)


def test_a_directory_that_promises_too_much(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "bomb.npz", npy((3,)), says=5 * 2**30)
    refused(path, r"it takes 5,368,709,120 bytes; at most 67,108,864 are read")


def test_a_directory_that_promises_too_little(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "bomb.npz", npy((2**23,), data=bytes(2**26)), says=500)
    assert path.stat().st_size < 2**17
    refused(path, "cut short or damaged")


def test_a_header_that_promises_too_much(tmp_path: Path) -> None:
    refused(
        write_zip(tmp_path / "bomb.npz", npy((10**9, 10), data=bytes(80))), "an array in it cannot be read"
    )


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compression_without_a_bound_is_not_opened(method: int, tmp_path: Path) -> None:
    path = write_zip(tmp_path / "bomb.npz", npy((2**23,), data=bytes(2**26)), method)
    refused(path, "x.npy is encrypted, or compressed in a way that is not read")


def test_encrypted_files_are_named(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "secret.npz", npy((3,), data=bytes(24)))
    content = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        content[content.index(signature) + offset] |= 1  # the flag of encryption
    path.write_bytes(content)
    refused(path, "x.npy is encrypted")


def test_what_is_no_regular_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    for name in ("pipe", "endless", "."):
        refused(tmp_path / name, "cannot be read")


def test_a_loop_of_links_is_named(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    refused(tmp_path / "loop", "loop: cannot be read")


@pytest.mark.parametrize("dtype", ["|O", "<U99999999", "<f8, <f8", "nonsense", "|V0", "<m8[s]"])
def test_strange_types(dtype: str, tmp_path: Path) -> None:
    content = npy((3,), data=bytes(24)).replace(b"'<f8'", repr(dtype).encode())
    write_zip(tmp_path / "x.npz", content)
    with pytest.raises(InputError):
        Predictions.load(tmp_path / "x.npz")


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_damage_anywhere_is_one_line_or_nothing(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    whole = pack_arrays({"format": np.array("dhpf-predictions"), "version": np.array(2), "x": np.arange(9.0)})
    content = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged.npz"
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        Predictions.load(path)  # arrays are missing even from the whole file
    assert "\n" not in str(error.value)
