"""Weights: bundled, local, downloaded from a server on this machine; damaged, wrong and hostile ones."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from dhpf import InputError
from dhpf.model import weights
from dhpf.model.backbone import ResNet
from dhpf.model.checkpoint import read_metadata
from dhpf.model.models import DEFAULT_MODEL, HEADS, LAYERS, MODELS, PASCAL_CLEAN
from dhpf.model.weights import ASSETS, BACKBONES, load_backbone, read_state
from dhpf.train.config import make_config
from dhpf.train.recipe import read_recipe

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


def test_every_model_names_a_backbone_and_layers_that_it_has() -> None:
    assert DEFAULT_MODEL in MODELS
    assert BACKBONES[MODELS[DEFAULT_MODEL].backbone].bundled
    for model in MODELS.values():
        with torch.device("meta"):
            blocks = len(ResNet(BACKBONES[model.backbone].depth).channels)
        assert all(0 <= layer < blocks for layer in model.layers)


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
def blocks() -> list[torch.Tensor]:
    """What the bundled network makes of an image."""
    return load_backbone("resnet50-msra")(IMAGE)


@pytest.mark.parametrize("form", ["plain", "with fc", "state_dict", "safetensors", "counters"])
def test_local_files(
    tmp_path: Path, state: dict[str, torch.Tensor], blocks: list[torch.Tensor], form: str
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
    for given, wanted in zip(load_backbone("resnet50-msra", path)(IMAGE), blocks, strict=True):
        assert torch.equal(given, wanted)


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
    torch.save({**state, "bn1.bias": torch.full((64,), torch.nan)}, path)
    with pytest.raises(InputError, match=r"bn1.bias holds values that are infinite or no numbers"):
        load_backbone("resnet50", path)


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


def test_files_that_hold_something_else(tmp_path: Path) -> None:
    path = tmp_path / "net.pth"
    for content in ([1, 2], {"a": 1}, {1: torch.zeros(1)}, torch.zeros(3)):
        torch.save(content, path)
        with pytest.raises(InputError, match=r"does not hold a dictionary of tensors"):
            read_state(path)
    with pytest.raises(InputError, match=r"no such weights file"):
        read_state(tmp_path / "none.pth")
    with pytest.raises(InputError, match=r"no such weights file"):
        read_state(tmp_path)


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


def three(pck: dict[str, float]) -> str:
    return " / ".join(f"{pck[alpha]:.1f}" for alpha in ("0.05", "0.1", "0.15"))


def test_trained_heads_say_how_they_were_made() -> None:
    trained = [entry for entry in MODELS.values() if entry.training is not None]
    assert {entry.head for entry in trained} == set(HEADS.glob("*.safetensors"))
    for entry in trained:
        metadata = read_metadata(entry.head)
        recipe = Path(__file__).parent.parent / "recipes" / entry.training.recipe
        assert make_config(json.loads(metadata["config"]), str(entry.head)) == read_recipe(recipe)
        assert (metadata["commit"], metadata["backbone"]) == (entry.training.commit, entry.backbone)
        assert len(metadata["training_images"].splitlines()) > 100


def test_the_figures_of_a_model_are_those_on_record() -> None:
    results = Path(__file__).parent.parent / "benchmarks" / "results"
    endings = ("pf-pascal_{}", "pf-willow_{}", "pf-willow_{}_legacy")
    for entry in MODELS.values():
        for ending, shown in zip(endings, entry.figures.values(), strict=False):
            found = json.loads((results / f"{ending.format(entry.name)}.json").read_text())["result"]
            assert shown == three(found["pck"])
            if entry.training is not None and ending.startswith("pf-pascal"):
                assert entry.figures[PASCAL_CLEAN].startswith(three(found["leak_free"]["pck"]))
                assert entry.figures[LAYERS] == f"{found['average_layers']:.1f}"
    assert MODELS[DEFAULT_MODEL].figures
