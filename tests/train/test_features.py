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

from dhpf.data.pairs import Photo
from dhpf.train.features import FeatureStore, StoredFeatures, block_shapes
from dhpf.train.views import View

from ..conftest import texture
from .conftest import environment

SIZE = (72, 56)  # width, height: neither a multiple of the other's grid
PLAIN = View()
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


def equal(one: StoredFeatures, other: StoredFeatures) -> bool:
    return all(map(torch.equal, one.pooled, other.pooled)) and all(
        np.array_equal(a, b) for a, b in zip(one.blocks, other.blocks, strict=True)
    )


def test_values_are_the_backbones(backbone, make_store, photos):
    found = make_store().get(photos[0], PLAIN)
    with torch.no_grad():
        blocks = backbone(PLAIN.tensor(photos[0], SIZE))
    assert [block.shape for block in found.blocks] == block_shapes(backbone, SIZE)
    for layer, block in enumerate(blocks):
        wanted = block[0].permute(1, 2, 0)
        assert torch.equal(found.block(layer), wanted.half().float())
        torch.testing.assert_close(found.block(layer), wanted, rtol=2**-11, atol=1e-6)
        torch.testing.assert_close(found.pooled[layer], block.mean(dim=(2, 3))[0])
        assert found.pooled[layer].dtype == torch.float32


def test_another_store_reads_what_one_wrote(make_store, photos):
    first, second = make_store(), make_store()
    computed = first.get(photos[0], PLAIN)
    assert equal(second.get(photos[0], PLAIN), computed)
    assert (first.computed, second.computed) == (1, 0)
    assert {path.stat().st_size for path in first.folder.iterdir()} == {first.bytes}


def test_what_looks_different_has_a_file_of_its_own(make_store, photos):
    store = make_store()
    store.get(photos[0], PLAIN)
    for other, photo, view in [
        (store, photos[1], PLAIN),
        (store, photos[0].mirror(), PLAIN),
        (store, photos[0], View(brightness=1.2)),
        (store, photos[0], View(box=(0.0, 0.0, 0.5, 1.0))),
        (make_store(size=SIZE[::-1]), photos[0], PLAIN),
        (make_store(name="another"), photos[0], PLAIN),
    ]:
        before = files(store)
        other.get(photo, view)
        assert len(files(store) - before) == 1


def test_a_photo_that_changes_is_computed_again(make_store, photos):
    store = make_store()
    store.get(photos[0], PLAIN)
    Image.fromarray(texture(60, 40, 9)).save(photos[0].path)
    os.utime(photos[0].path, ns=(1, 1))
    found = store.get(photos[0], PLAIN)
    assert store.computed == 2
    assert equal(found, make_store(limit=0).get(photos[0], PLAIN))


@pytest.mark.parametrize("length", [0, 1, 1000, -1, -2])
def test_a_file_that_is_not_whole_is_computed_again(make_store, photos, length):
    store = make_store()
    right = store.get(photos[0], PLAIN)
    (path,) = store.folder.iterdir()
    os.truncate(path, length if length >= 0 else store.bytes + length)
    again = make_store()
    assert equal(again.get(photos[0], PLAIN), right)
    assert again.computed == 1
    assert path.stat().st_size == store.bytes


def test_the_folder_is_bounded_and_the_oldest_go_first(make_store, photos):
    one = make_store().bytes
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
    store.folder.mkdir(exist_ok=True)
    old, new = (store.folder / f".{name}.1.partial.unfinished" for name in ("old", "new"))
    for path in (old, new):
        path.write_bytes(bytes(store.bytes))
    os.utime(old, (0, 0))
    make_store(limit=int(1.5 * store.bytes)).get(photos[0], PLAIN)
    assert not old.exists()
    assert new.exists()  # somebody may be writing it


def test_two_processes_at_once(make_store, photos):
    """Both compute the same photos in the same folder, with room for two: neither disturbs the other."""
    store = make_store()
    limit = int(2.5 * store.bytes)
    program = (
        "import sys, numpy as np\n"
        "from pathlib import Path\n"
        "from dhpf.data.pairs import Photo\n"
        "from dhpf.model.weights import load_backbone\n"
        "from dhpf.train.features import FeatureStore\n"
        "from dhpf.train.views import View\n"
        f"store = FeatureStore(load_backbone('resnet50-msra'), 'resnet50-msra', {SIZE}, "
        f"Path({str(store.folder)!r}), {limit})\n"
        f"photos = [Photo(Path(p), (60, 40), np.zeros((0, 2))) for p in {[str(p.path) for p in photos]!r}]\n"
        "total = 0.0\n"
        "for photo in photos * 2:\n"
        "    total += float(store.get(photo, View()).blocks[3].astype(float).sum())\n"
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
    wanted = 2 * sum(float(store.get(photo, PLAIN).blocks[3].astype(float).sum()) for photo in photos)
    assert [float(text) for text in printed] == pytest.approx([wanted, wanted])


def test_a_folder_that_cannot_be_made(backbone, tmp_path):
    from dhpf import InputError

    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot make the feature folder"):
        FeatureStore(backbone, "x", SIZE, tmp_path / "file" / "features", 0)
