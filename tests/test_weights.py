"""Weights: bundled, local, downloaded from a server on this machine; damaged, wrong and hostile ones."""

from __future__ import annotations

import hashlib
import os
import pickle
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from dhpf import InputError
from dhpf.backbones import weights
from dhpf.backbones.state import load_strictly, read_state
from dhpf.backbones.weights import ASSETS, BACKBONES, load_backbone

BUNDLED = BACKBONES["resnet50-msra"]
CONTENT = b"these bytes stand for weights"


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of a file with ``CONTENT``."""
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "net.pth").write_bytes(CONTENT)
    handler = partial(QuietHandler, directory=str(tmp_path / "served"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}/net.pth"
        http.shutdown()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DHPF_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def entry(address: str, content: bytes = CONTENT) -> weights.BackboneWeights:
    return replace(BACKBONES["resnet50"], source=address, sha256=hashlib.sha256(content).hexdigest())


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_the_bundled_file_is_the_one_that_is_named() -> None:
    assert hashlib.sha256((ASSETS / BUNDLED.source).read_bytes()).hexdigest() == BUNDLED.sha256


def test_download_once(server: str, home: Path) -> None:
    path = weights._fetch(entry(server))
    assert path.read_bytes() == CONTENT
    assert files(home) == ["weights/net.pth"]
    dead = replace(entry(server), source="http://127.0.0.1:9/net.pth")
    assert weights._fetch(dead) == path  # from the cache, not from the address


def test_a_wrong_checksum_leaves_no_file(server: str, home: Path) -> None:
    with pytest.raises(
        InputError, match=r"download of resnet50 has a wrong checksum: try again, or get http"
    ):
        weights._fetch(entry(server, b"other bytes"))
    assert files(home) == []


def test_a_spoilt_file_in_the_cache(server: str, home: Path) -> None:
    path = weights._fetch(entry(server))
    path.write_bytes(b"spoilt")
    with pytest.raises(InputError, match=r"net\.pth has a wrong checksum; delete it and try again"):
        weights._fetch(entry(server))


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("http://127.0.0.1:9/net.pth", "refused"),
        ("http://nowhere.invalid/net.pth", "resolution|known|Name"),
        ("{server}/../none.pth", "Not Found|not found"),
    ],
)
def test_an_address_that_does_not_answer(server: str, home: Path, address: str, reason: str) -> None:
    with pytest.raises(
        InputError, match=rf"^cannot download resnet50 \(.*({reason}).*\): check the network, or get"
    ):
        weights._fetch(entry(address.format(server=server)))
    assert files(home) == []


def test_a_server_that_hangs_up(home: Path) -> None:
    class HangUp(QuietHandler):
        def do_GET(self) -> None:
            self.connection.close()

    with ThreadingHTTPServer(("127.0.0.1", 0), HangUp) as http:
        http.handle_error = lambda *_: None  # type: ignore[method-assign]
        threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
        with pytest.raises(InputError, match=r"cannot download resnet50"):
            weights._fetch(entry(f"http://127.0.0.1:{http.server_port}/net.pth"))
        http.shutdown()
    assert files(home) == []


def test_a_server_that_falls_silent(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    silence = threading.Event()

    class Silent(QuietHandler):
        def do_GET(self) -> None:
            silence.wait(10)

    monkeypatch.setattr(weights, "PATIENCE", 0.2)
    with ThreadingHTTPServer(("127.0.0.1", 0), Silent) as http:
        threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
        with pytest.raises(InputError, match=r"cannot download resnet50 .*timed out"):
            weights._fetch(entry(f"http://127.0.0.1:{http.server_port}/net.pth"))
        silence.set()
        http.shutdown()


def test_a_cache_that_cannot_be_written(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DHPF_HOME", str(tmp_path / "file"))
    with pytest.raises(InputError, match=r"cannot store .*; set DHPF_HOME to a writable folder"):
        weights._fetch(entry(server))


def test_an_unknown_backbone_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r"unknown backbone 'resnet-101': did you mean 'resnet101'\?"):
        load_backbone("resnet-101")


@pytest.fixture(scope="module")
def state() -> dict[str, torch.Tensor]:
    return load_file(ASSETS / BUNDLED.source)


IMAGE = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def blocks() -> dict[int, torch.Tensor]:
    """What the bundled network makes of an image."""
    return load_backbone("resnet50-msra")(IMAGE)


@pytest.mark.parametrize("form", ["plain", "with fc", "state_dict", "safetensors", "counters"])
def test_local_files(
    tmp_path: Path, state: dict[str, torch.Tensor], blocks: dict[int, torch.Tensor], form: str
) -> None:
    """With a classifier, as torchvision's have, or wrapped, as trainers write them: the same network."""
    path = tmp_path / ("net.safetensors" if form == "safetensors" else "net.pth")
    classifier = {"fc.weight": torch.zeros(1000, 2048), "fc.bias": torch.zeros(1000)}
    if form == "safetensors":
        save_file(state, path)
    elif form == "state_dict":
        torch.save({"state_dict": state, "epoch": 3}, path)
    elif form == "counters":
        torch.save({**state, "bn1.num_batches_tracked": torch.tensor(7)}, path)
    else:
        torch.save({**state, **(classifier if form == "with fc" else {})}, path)
    given = load_backbone("resnet50-msra", path)(IMAGE)
    assert list(given) == list(blocks) == list(range(17))
    assert all(torch.equal(given[layer], wanted) for layer, wanted in blocks.items())


def test_weights_of_another_network(tmp_path: Path, state: dict[str, torch.Tensor]) -> None:
    with pytest.raises(InputError, match=r"is not a ResNet-101: \d+ weights missing, 0 unknown \(layer3"):
        load_backbone("resnet101", ASSETS / BUNDLED.source)
    path = tmp_path / "net.pth"
    torch.save({**state, "conv1.weight": torch.zeros(64, 3, 3, 3)}, path)
    with pytest.raises(InputError, match=r"conv1.weight has shape \(64, 3, 3, 3\), wanted \(64, 3, 7, 7\)"):
        load_backbone("resnet50", path)
    torch.save({**state, "bn1.bias": torch.zeros(64, dtype=torch.int64)}, path)
    with pytest.raises(InputError, match=r"bn1.bias holds torch.int64, wanted floats"):
        load_backbone("resnet50", path)
    for wrong in (torch.nan, 1e300):  # the second is infinite in float32
        torch.save({**state, "bn1.bias": torch.full((64,), wrong, dtype=torch.float64)}, path)
        with pytest.raises(InputError, match=r"bn1.bias holds values that are infinite or no numbers"):
            load_backbone("resnet50", path)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"conv1.weight": torch.full((64, 3, 7, 7), 3e38)}, id="overflow"),
        pytest.param({"bn1.running_var": torch.full((64,), -1.0)}, id="negative variance"),
    ],
)
def test_finite_weights_that_compute_no_numbers(
    tmp_path: Path, state: dict[str, torch.Tensor], change: dict[str, torch.Tensor]
) -> None:
    save_file({**state, **change}, tmp_path / "net.safetensors")
    with pytest.raises(InputError, match=r"computes values that are infinite or no numbers; get it again"):
        load_backbone("resnet50-msra", tmp_path / "net.safetensors")


class Bomb:
    """Pickled, this runs a command when it is read carelessly."""

    def __init__(self, witness: Path) -> None:
        self.witness = witness

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.witness}",)


@pytest.mark.parametrize("kind", ["zip", "legacy", "pickle"])
def test_code_in_a_file_is_not_run(tmp_path: Path, kind: str) -> None:
    path, witness = tmp_path / "net.pth", tmp_path / "witness"
    if kind == "pickle":
        path.write_bytes(pickle.dumps({"a": Bomb(witness)}))
    else:
        torch.save({"a": Bomb(witness)}, path, _use_new_zipfile_serialization=kind == "zip")
    with pytest.raises(InputError, match=r"net\.pth is not a weights file that can be read safely"):
        read_state(path)
    assert not witness.exists()


class Filler:
    """Pickled, a few bytes that fill memory when they are read, which torch allows."""

    def __reduce__(self) -> tuple[object, tuple[int]]:
        return bytearray, (10**9,)


def test_files_that_hold_something_else(tmp_path: Path) -> None:
    path = tmp_path / "net.pth"
    for content in ([1, 2], {"a": 1}, {1: torch.zeros(1)}, torch.zeros(3)):
        torch.save(content, path)
        with pytest.raises(InputError, match=r"does not hold a dictionary of tensors"):
            read_state(path)
    for more in (torch.eye(3).to_sparse(), torch.empty(3, device="meta"), Filler()):
        torch.save({"a": more}, path)
        with pytest.raises(InputError, match=r"net\.pth is not a weights file that can be read safely"):
            read_state(path)
    with pytest.raises(InputError, match=r"no such weights file"):
        read_state(tmp_path / "none.pth")
    with pytest.raises(InputError, match=r"no such weights file"):
        read_state(tmp_path)
    os.mkfifo(tmp_path / "pipe.pth")
    with pytest.raises(InputError, match=r"no such weights file"):
        read_state(tmp_path / "pipe.pth")


@pytest.mark.parametrize("zipped", [True, False])
def test_both_formats_of_torch_are_read(tmp_path: Path, zipped: bool) -> None:
    path, state = tmp_path / "net.pth", torch.nn.BatchNorm2d(3).state_dict()
    given = {"state_dict": state, "epoch": 3, "names": ["a"], "weight": torch.nn.Parameter(torch.ones(2))}
    torch.save(given, path, _use_new_zipfile_serialization=zipped)
    assert read_state(path).keys() == state.keys()
    torch.save({"a": Filler()}, path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(InputError, match=r"net\.pth is not a weights file that can be read safely"):
        read_state(path)


@pytest.mark.parametrize("ending", [".pth", ".safetensors"])
def test_sizes_are_bounded_before_memory_is_taken(tmp_path: Path, ending: str) -> None:
    """A file that takes no room on the disc."""
    path = tmp_path / f"net{ending}"
    with path.open("wb") as stream:
        stream.truncate(2**40)
    with pytest.raises(InputError, match=r"is too large for such weights; wanted at most 256 MB"):
        read_state(path)
    with pytest.raises(InputError, match=r"is too large for such weights; wanted at most \d+ MB"):
        load_backbone("resnet50", path)


def test_a_packed_file_is_not_larger_than_it_looks(tmp_path: Path) -> None:
    plain, packed = tmp_path / "plain.pth", tmp_path / "packed.pth"
    torch.save({"a": torch.zeros(100_000)}, plain)
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
        for member in source.infolist():
            target.writestr(member.filename, source.read(member))
    assert packed.stat().st_size < plain.stat().st_size / 100
    with pytest.raises(InputError, match=r"packed\.pth is not a weights file that can be read safely"):
        read_state(packed)


def test_tensors_that_share_memory_are_not_larger_than_they_look(tmp_path: Path) -> None:
    path = tmp_path / "net.pth"
    torch.save({"a": torch.zeros(1).expand(10**5, 10**5)}, path)
    assert path.stat().st_size < 10_000
    with pytest.raises(InputError, match=r"is too large for such weights"):
        read_state(path)


@pytest.mark.parametrize("dtype", [torch.int64, torch.complex64, torch.float8_e4m3fn])
def test_weights_are_floats(dtype: torch.dtype) -> None:
    layer = torch.nn.Linear(2, 2, bias=False)
    with pytest.raises(InputError, match=r"^no: weight holds torch\.\w+, wanted floats"):
        load_strictly(layer, {"weight": torch.ones(2, 2).to(dtype)}, "no")
    load_strictly(layer, {"weight": torch.ones(2, 2, dtype=torch.bfloat16)}, "no")
    assert torch.equal(layer.weight, torch.ones(2, 2))


@pytest.mark.parametrize("ending", [".pth", ".safetensors"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_cut_off_files(tmp_path: Path, ending: str, share: float) -> None:
    path = tmp_path / f"net{ending}"
    tensors = {"a": torch.arange(1000.0), "b": torch.ones(10)}
    if ending == ".pth":
        torch.save(tensors, path)
    else:
        save_file(tensors, path)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(InputError, match=r"is not a weights file that can be read safely, or it is damaged"):
        read_state(path)
