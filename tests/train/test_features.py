"""Features on disk are those of the backbone, whatever happens to the files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from dhpf.backbones.base import Features
from dhpf.backbones.weights import load_backbone
from dhpf.data.pairs import Photo
from dhpf.train.augmentation import Augmentation
from dhpf.train.features import FeatureStore
from dhpf.train.sealed import seal, unseal

from ..conftest import texture
from .conftest import environment

SIZE = (72, 56)  # width, height: neither a multiple of the other's grid
PLAIN = Augmentation()
MakeStore = Callable[..., FeatureStore]


@pytest.fixture
def photos(tmp_path: Path) -> list[Photo]:
    made = []
    for seed in range(4):
        path = tmp_path / f"photo{seed}.png"
        Image.fromarray(texture(60, 40, seed)).save(path)
        made.append(Photo(path, (60, 40), np.zeros((0, 2))))
    return made


@pytest.fixture
def make_store(backbone, tmp_path) -> MakeStore:
    def make(limit: int = 10**9, name: str = "resnet50-msra", size: tuple[int, int] = SIZE) -> FeatureStore:
        return FeatureStore(backbone, name, size, tmp_path / "features", limit)

    return make


def files(store: FeatureStore) -> set[str]:
    return {path.name for path in store.folder.iterdir()}


def equal(one: Features, other: Features) -> bool:
    assert one.grid == other.grid
    assert one.blocks.keys() == other.blocks.keys() == one.pooled.keys() == other.pooled.keys()
    return all(
        torch.equal(one.blocks[layer], other.blocks[layer])
        and torch.equal(one.pooled[layer], other.pooled[layer])
        and one.blocks[layer].stride() == other.blocks[layer].stride()  # some sums depend on it
        for layer in one.blocks
    )


def file_size(store: FeatureStore, photo: Photo) -> int:
    """Of a photo's features; all photos have as many."""
    store.get(photo, PLAIN)
    (path,) = store.folder.iterdir()
    size = path.stat().st_size
    path.unlink()
    return size


def test_values_are_the_backbones(backbone, make_store, photos):
    found = make_store().get(photos[0], PLAIN)
    with torch.no_grad():
        blocks = backbone(PLAIN.tensor(photos[0], SIZE, backbone.mean, backbone.std))
    assert found.grid == backbone.grid(SIZE)
    assert list(found.blocks) == list(found.pooled) == list(range(17))
    for layer, block in blocks.items():
        wanted = block[0].permute(1, 2, 0)
        assert found.blocks[layer].dtype == torch.float16
        torch.testing.assert_close(found.blocks[layer].float(), wanted, rtol=2**-11, atol=1e-6)
        torch.testing.assert_close(found.pooled[layer], block.mean(dim=(2, 3))[0])
        assert found.pooled[layer].dtype == torch.float32


def test_another_store_reads_what_one_wrote(make_store, photos):
    first, second = make_store(), make_store()
    computed = first.get(photos[0], PLAIN)
    assert equal(second.get(photos[0], PLAIN), computed)
    assert (first.computed, second.computed) == (1, 0)
    assert sum(path.stat().st_size for path in first.folder.iterdir()) == pytest.approx(
        computed.nbytes, rel=0.01
    )


def test_what_looks_different_has_a_file_of_its_own(make_store, photos):
    store = make_store()
    store.get(photos[0], PLAIN)
    for other, photo, augmentation in [
        (store, photos[1], PLAIN),
        (store, photos[0].mirror(), PLAIN),
        (store, photos[0], Augmentation(brightness=1.2)),
        (store, photos[0], Augmentation(box=(0.0, 0.0, 0.5, 1.0))),
        (make_store(size=SIZE[::-1]), photos[0], PLAIN),
        (make_store(name="another"), photos[0], PLAIN),
    ]:
        before = files(store)
        other.get(photo, augmentation)
        assert len(files(store) - before) == 1


def test_a_photo_that_changes_is_computed_again(make_store, photos):
    store = make_store()
    store.get(photos[0], PLAIN)
    Image.fromarray(texture(60, 40, 9)).save(photos[0].path)
    os.utime(photos[0].path, ns=(1, 1))
    found = store.get(photos[0], PLAIN)
    assert store.computed == 2
    assert equal(found, make_store(limit=0).get(photos[0], PLAIN))


DAMAGES: dict[str, Callable[[bytes, bytes], bytes]] = {  # what a file holds, and what another holds
    "empty": lambda own, other: b"",
    "a byte": lambda own, other: own[:1],
    "a part of the header": lambda own, other: own[:1000],
    "all but a byte": lambda own, other: own[:-1],
    "half of it": lambda own, other: own[: len(own) // 2],
    "a byte more": lambda own, other: own + b"x",
    "zeros": lambda own, other: bytes(len(own)),
    "values are zeros": lambda own, other: own[:20_000] + bytes(len(own) - 20_000),
    "a page is zeros": lambda own, other: own[:40_960] + bytes(4096) + own[45_056:],
    "a bit": lambda own, other: own[:90_000] + bytes([own[90_000] ^ 1]) + own[90_001:],
    "another photo's": lambda own, other: other,
    "no safetensors": lambda own, other: b"features" * 1000,
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("known", [False, True], ids=["new store", "same store"])
def test_a_file_that_does_not_fit_is_computed_again(make_store, photos, damage, known):
    store = make_store()
    right = store.get(photos[0], PLAIN)
    (path,) = store.folder.iterdir()
    store.get(photos[1], PLAIN)
    (other,) = set(store.folder.iterdir()) - {path}
    whole = path.read_bytes()
    again = store if known else make_store()
    if known:
        store.get(photos[0], PLAIN)  # its checksum was seen to fit
    before = again.computed
    os.utime(path, ns=(1, 1))
    changed = DAMAGES[damage](whole, other.read_bytes())
    assert changed != whole
    path.write_bytes(changed)
    assert equal(again.get(photos[0], PLAIN), right)
    assert again.computed == before + 1
    assert path.read_bytes() == whole
    assert equal(again.get(photos[0], PLAIN), right)
    assert again.computed == before + 1


def test_features_without_tokens_are_computed_again(photos, tmp_path):
    """As they were kept before training needed class and register tokens."""
    transformer = load_backbone("dinov2-vits14")
    store = FeatureStore(transformer, "dinov2-vits14", (28, 42), tmp_path / "features", 10**9)
    right = store.get(photos[0], PLAIN)
    assert [*right.tokens] == list(range(12)) and right.tokens[0].shape == (1, 384)
    (path,) = store.folder.iterdir()
    tensors, key = unseal(path)
    older = {name: tensor for name, tensor in tensors.items() if not name.startswith("tokens.")}
    path.write_bytes(seal(older, key))
    assert equal(store.get(photos[0], PLAIN), right)
    again = FeatureStore(transformer, "dinov2-vits14", (28, 42), tmp_path / "features", 10**9)
    found = again.get(photos[0], PLAIN)
    assert (store.computed, again.computed) == (2, 0)
    torch.testing.assert_close(dict(found.tokens), dict(right.tokens), rtol=0, atol=0)


def test_the_folder_is_bounded_and_the_oldest_go_first(make_store, photos):
    one = file_size(make_store(), photos[0])
    store = make_store(limit=int(3.5 * one))
    for age, photo in enumerate(photos[:3]):
        store.get(photo, PLAIN)
        set_ages(store, 100 - age)
    store.get(photos[0], PLAIN)  # used again: now the second is the oldest
    store.get(photos[3], PLAIN)
    assert sum(path.stat().st_size for path in store.folder.iterdir()) <= store.limit
    later = make_store(limit=int(3.5 * one))
    for photo in (photos[0], photos[2], photos[3]):
        later.get(photo, PLAIN)
    assert later.computed == 0
    later.get(photos[1], PLAIN)
    assert later.computed == 1


def set_ages(store: FeatureStore, seconds: int) -> None:
    """Files that were used just now were used that long ago; others keep their age."""
    for path in store.folder.iterdir():
        status = path.stat()
        if status.st_mtime > status.st_ctime - 1:
            os.utime(path, (status.st_mtime - seconds,) * 2)


def test_without_room_nothing_is_written_and_nothing_goes(make_store, photos):
    make_store().get(photos[0], PLAIN)
    store = make_store(limit=0)
    before = files(store)
    assert equal(store.get(photos[1], PLAIN), store.get(photos[1], PLAIN))
    assert store.computed == 2
    assert files(store) == before


def test_what_killed_processes_left_makes_room(make_store, photos):
    store = make_store()
    one = file_size(store, photos[0])
    old, new = (store.folder / f".{name}.1.partial.unfinished" for name in ("old", "new"))
    for path in (old, new):
        path.write_bytes(bytes(one))
    os.utime(old, (0, 0))
    make_store(limit=int(1.5 * one)).get(photos[0], PLAIN)
    assert not old.exists()
    assert new.exists()  # somebody may be writing it


def test_two_processes_at_once(make_store, photos):
    """Both compute the same photos in the same folder, with room for two: neither disturbs the other."""
    store = make_store()
    limit = int(2.5 * file_size(store, photos[0]))
    program = (
        "import sys, numpy as np\n"
        "from pathlib import Path\n"
        "from dhpf.data.pairs import Photo\n"
        "from dhpf.backbones.weights import load_backbone\n"
        "from dhpf.train.augmentation import Augmentation\n"
        "from dhpf.train.features import FeatureStore\n"
        f"store = FeatureStore(load_backbone('resnet50-msra'), 'resnet50-msra', {SIZE}, "
        f"Path({str(store.folder)!r}), {limit})\n"
        f"photos = [Photo(Path(p), (60, 40), np.zeros((0, 2))) for p in {[str(p.path) for p in photos]!r}]\n"
        "total = 0.0\n"
        "for photo in photos * 2:\n"
        "    total += store.get(photo, Augmentation()).blocks[3].double().sum().item()\n"
        "print(total)\n"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program], env=environment(), stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    printed = [process.communicate(timeout=300)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0]
    wanted = 2 * sum(store.get(photo, PLAIN).blocks[3].double().sum().item() for photo in photos)
    assert [float(text) for text in printed] == pytest.approx([wanted, wanted])


def test_a_folder_that_cannot_be_made(backbone, tmp_path):
    from dhpf import InputError

    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot make the folder"):
        FeatureStore(backbone, "x", SIZE, tmp_path / "file" / "features", 0)


def test_a_copy_of_a_photo_has_its_features(make_store, photos, tmp_path):
    """A folder that is moved or unpacked again, with other times of its files, costs nothing."""
    store = make_store()
    first = store.get(photos[0], PLAIN)
    copy = tmp_path / "elsewhere" / "again.png"
    copy.parent.mkdir()
    copy.write_bytes(photos[0].path.read_bytes())
    os.utime(copy, (10**9, 10**9))
    assert equal(store.get(Photo(copy, (60, 40), photos[0].points), PLAIN), first)
    assert store.computed == 1


def test_some_layers_alone_do_not_serve_for_all(make_store, backbone, photos):
    every = make_store()
    some = FeatureStore(backbone, "resnet50-msra", SIZE, every.folder, 10**9, layers=(13,))
    found = some.get(photos[0], PLAIN)
    full = every.get(photos[0], PLAIN)
    assert [*found.blocks] == [*found.pooled] == [13]
    assert torch.equal(found.blocks[13], full.blocks[13])
    assert len(files(every)) == 2
    assert equal(every.get(photos[0], PLAIN), full)
    assert (every.computed, some.computed) == (1, 1)


def test_all_layers_serve_where_some_are_wanted(make_store, backbone, photos):
    every = make_store()
    full = every.get(photos[0], PLAIN)
    some = FeatureStore(backbone, "resnet50-msra", SIZE, every.folder, 10**9, layers=(3, 13))
    found = some.get(photos[0], PLAIN)
    assert [*found.blocks] == [*found.pooled] == [3, 13]
    assert torch.equal(found.blocks[13], full.blocks[13])
    assert len(files(every)) == 1 and some.computed == 0
