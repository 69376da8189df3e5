"""Every kind of damage that a file of each family can have, as rules: name -> how to make such a file."""

from __future__ import annotations

import copy
import io
import json
import os
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from benchmarks.inputs import HEAD, REFERENCES, predictions
from safetensors.torch import load_file, save_file

from dhpf.evaluate.storage import pack_arrays, read_arrays
from dhpf.heads import read_metadata
from tests.test_bad_images import FILES, PHONES

Make: TypeAlias = Callable[[Path], object]

LARGE = 2**40  # bytes that a file pretends to have


def holds(content: bytes | str) -> Make:
    """A file of that content."""
    data = content.encode() if isinstance(content, str) else content
    return lambda path: path.write_bytes(data)


def large(path: Path) -> None:
    """A file of a terabyte, of which nothing is on the disc."""
    with path.open("wb") as stream:
        stream.truncate(LARGE)


NO_FILES: dict[str, Make] = {  # of any family: a name that leads to no file
    "missing": lambda path: None,
    "folder": lambda path: path.mkdir(),
    "pipe": lambda path: os.mkfifo(path),
    "endless": lambda path: path.symlink_to("/dev/zero"),
    "circle": lambda path: path.symlink_to(path.name),
    "dangling": lambda path: path.symlink_to("nowhere"),
    "large": large,
}
NO_TEXT: dict[str, Make] = {
    "empty": holds(""),
    "zeros": holds(bytes(1000)),
    "utf16": holds("[[1, 2]]".encode("utf-16")),
    "latin1": holds("é = [[1, 2]]".encode("latin-1")),
}
NO_JSON: dict[str, Make] = {
    "cut": holds("[[1, 2"),
    "deep": holds("[" * 100_000),
    "digits": holds("[[" + "9" * 10_000 + ", 1]]"),
    "words": holds("these are words"),
    "null": holds("null"),
    "number": holds("3"),
}

PHOTOS = {name: holds(content) for name, (content, _) in {**FILES, **PHONES}.items()}

NO_POINTS: dict[str, Make] = {
    "nan": holds("[[NaN, 3]]"),
    "infinite": holds("[[Infinity, 3]]"),
    "beyond": holds("[[1e999, 3]]"),
    "none": holds("[]"),
    "nulls": holds("[[null, 1]]"),
    "true": holds("[[true, 1]]"),
    "three": holds("[[1, 2, 3]]"),
    "text": holds('[["left", "eye"]]'),
    "surrogate": holds('[["\\ud800", 1]]'),
    "object": holds('{"corners": [[1, 2]]}'),
    "tables": holds('{"points": {"x": 1}}'),
}


def annotated(**fields: Any) -> Make:
    """Sound annotations, but for fields of the image, of its object or of their category."""
    content = copy.deepcopy(REFERENCES)
    for records in content.values():
        records[0].update({key: value for key, value in fields.items() if key in records[0]})
    return holds(json.dumps(content))


NO_ANNOTATIONS: dict[str, Make] = {
    "else": holds("{}"),
    "escape": annotated(file_name="../png.png"),
    "absolute": annotated(file_name="/etc/passwd"),
    "control": annotated(file_name="photos/\x1b[2J.png"),
    "surrogate": annotated(name="\ud800"),
    "nan": annotated(keypoints=[float("nan"), 1, 2] * 3),
    "beyond": annotated(keypoints=[10**400, 1, 2] * 3),
    "nulls": annotated(image_id=None),
    "nowhere": annotated(category_id=7),
    "size": annotated(width=-1),
}
NO_XML: dict[str, Make] = {
    "words": holds("these are words"),
    "cut": holds("<annotations><image"),
    "deep": holds("<annotations>" + "<a>" * 100_000),
    "entities": holds("<!DOCTYPE a [<!ENTITY a 'b'>]><annotations>&a;</annotations>"),
    "encoding": holds("<?xml version='1.0' encoding='utf-7'?><annotations/>"),
    "else": holds("<svg/>"),
}
NO_PAIRS: dict[str, Make] = {
    "columns": holds("a,b\n1.png,2.png\n"),
    "header": holds("source,target\n"),
    "halves": holds("source,target\nphotos/1.png\n"),
    "blanks": holds("source,target\n,\n"),
    "quote": holds('source,target\n"photos/1.png,photos/2.png\n' + "x" * 200_000),
    "one": holds("source\nphotos/1.png\n"),
}
NO_NAMES: dict[str, Make] = {"blank": holds("\n\n\n"), "quote": holds('"' + "x" * 200_000)}
NO_RECIPE: dict[str, Make] = {
    "cut": holds("[run\n"),
    "words": holds("these are words"),
    "deep": holds("a = " + "[" * 100_000),
    "twice": holds("name = 'a'\nname = 'b'\n"),
    "unknown": holds("[run]\nepoch = 3\n"),
    "section": holds("run = 3\n"),
    "type": holds("[run]\nepochs = 'three'\n"),
    "nan": holds("[optimiser]\nrate = nan\n"),
    "beyond": holds("[optimiser]\nrate = 1e30\n"),
    "seed": holds("[run]\nseed = -1\n"),
    "digits": holds("[run]\nseed = " + "9" * 5000 + "\n"),
    "leaves": holds("name = '../../elsewhere'\n"),
    "absolute": holds("name = '/tmp/elsewhere'\n"),
    "itself": holds("extends = 'itself.toml'\n"),
    "extends": holds("extends = 3\n"),
    "nothing": holds("extends = 'nothing.toml'\n"),
    "method": holds("[model]\nmethod = 'magic'\n"),
    "backbone": holds("[model]\nbackbone = 'vgg'\n"),
    "size": holds("[model]\nsize = [1, 99999]\n"),
    "train": holds("[data]\ntrain = []\n"),
}


def changed(**arrays: Any) -> Make:
    """Sound predictions but for these arrays; None takes one out."""

    def make(path: Path) -> None:
        predictions("p").save(path)
        known: dict[str, Any] = {**read_arrays(path), **arrays}
        kept = {name: np.asarray(array) for name, array in known.items() if array is not None}
        path.write_bytes(pack_arrays(kept))

    return make


def zipped(member: str, content: bytes, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        archive.writestr(member, content)
    return stream.getvalue()


def npy(header: str, version: bytes = b"\1\0") -> bytes:
    """An array file that says of itself what it likes."""
    text = header.encode().ljust(118) + b"\n"
    return b"\x93NUMPY" + version + len(text).to_bytes(2, "little") + text


def encrypted(content: bytes) -> bytes:
    """The same archive, whose first member claims to be encrypted."""
    data = bytearray(content)
    data[6] |= 1
    data[data.index(b"PK\1\2") + 8] |= 1
    return bytes(data)


def promising(content: bytes, size: int) -> bytes:
    """The same archive, whose first member claims to take so many bytes."""
    data = bytearray(content)
    data[22:26] = data[(place := data.index(b"PK\1\2") + 24) : place + 4] = size.to_bytes(4, "little")
    return bytes(data)


def cut(path: Path) -> None:
    predictions("p").save(path)
    path.write_bytes(path.read_bytes()[:-100])


NO_PREDICTIONS: dict[str, Make] = {
    "empty": holds(""),
    "words": holds("these are words"),
    "cut": cut,
    "zip": holds(zipped("words.txt", b"words")),
    "encrypted": holds(encrypted(zipped("format.npy", npy("{}")))),
    "lzma": holds(zipped("format.npy", npy("{}"), zipfile.ZIP_LZMA)),
    "bomb": holds(promising(zipped("format.npy", bytes(2**20)), 2**31)),
    "promise": holds(
        zipped("format.npy", npy(f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({LARGE},)}}"))
    ),
    "negative": holds(zipped("format.npy", npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}"))),
    "pickle": holds(
        zipped("format.npy", npy("{'descr': '|O', 'fortran_order': False, 'shape': ()}") + b"cos\nsystem\n.")
    ),
    "code": holds(zipped("format.npy", npy("__import__('os')"))),
    "version": changed(version=99),
    "format": changed(format="else"),
    "lacking": changed(source_points=None),
    "surplus": changed(points=[1.0]),
    "shape": changed(source_points=[[1.0, 2.0, 3.0]]),
    "type": changed(source_sizes=[["a", "b"]] * 4),
    "nan": changed(source_points=np.full((16, 2), np.nan)),
    "beyond": changed(predicted_points=np.full((16, 2), 1e300)),
    "offsets": changed(point_offsets=[0, 4, 2, 12, 16]),
    "twice": changed(pair_ids=["same"] * 4),
    "sizes": changed(source_sizes=[[0, 1]] * 4),
    "confident": changed(confidences=np.full(16, 2.0)),
    "surrogate": changed(model="\ud800"),
    "escape": changed(categories=["\x1b[2J"] * 4),
    "config": changed(config="[" * 100_000),
    "kind": changed(kind="faces"),
    "direction": changed(direction="up"),
}


def head(tensors: Mapping[str, Any] | None = None, **said: str) -> Make:
    """A sound head but for these tensors and what it says of itself."""

    def make(path: Path) -> None:
        state = load_file(HEAD)
        for name, change in (tensors or {}).items():
            state[name] = change(state[name])
        save_file(state, path, {**read_metadata(HEAD), **said})

    return make


def first(tensor: torch.Tensor, value: float) -> torch.Tensor:
    spoilt = tensor.clone()
    spoilt.view(-1)[0] = value
    return spoilt


def without_format(path: Path) -> None:
    save_file({"a": torch.zeros(2)}, path)


NO_HEAD: dict[str, Make] = {
    "empty": holds(""),
    "words": holds("these are words"),
    "header": holds(b"\xff" * 8 + b"{}"),
    "object": holds((8).to_bytes(8, "little") + b'{"a": 1}'),
    "deep": holds((100_000).to_bytes(8, "little") + b"[" * 100_000),
    "cut": lambda path: path.write_bytes(HEAD.read_bytes()[:50_000]),
    "other": without_format,
    "version": head(version="1"),
    "method": head(method="magic"),
    "backbone": head(backbone="vgg"),
    "config": head(config="[" * 100_000),
    "setting": head(config='{"epsilon": NaN}'),
    "nan": head({"transforms.0.0.weight": lambda weight: first(weight, torch.nan)}),
    "shape": head({"transforms.0.0.weight": lambda weight: weight[:1].clone()}),
    "integers": head({"transforms.0.0.weight": lambda weight: weight.to(torch.int32)}),
    "variance": head({"transforms.0.1.running_var": lambda variance: -torch.ones_like(variance)}),
    "overflow": head({"transforms.3.0.weight": lambda weight: weight.float() * 1e38}),
}
ONLY_FOR_SIZE: dict[str, Make] = {  # where the recipe inside a head is read
    "recipe": head(recipe="{"),
    "sizeless": head(recipe=json.dumps({"model": 3})),
    "infinite": head(recipe='{"model": {"size": [1e999, 1]}}'),
}


class Runs:
    """What runs code as soon as it is read by pickle."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("code-was-run",)


def saved(content: Any, **options: Any) -> Make:
    return lambda path: torch.save(content, path, **options)


def meta(path: Path) -> None:
    torch.save({"conv1.weight": torch.zeros(2, 2, device="meta")}, path)


WEIGHTS: dict[str, Make] = {  # of a backbone or a published checkpoint, as torch writes them
    "empty": holds(""),
    "words": holds("these are words"),
    "zip": holds(zipped("words.txt", b"words")),
    "code": saved(Runs()),
    "legacy-code": saved(Runs(), _use_new_zipfile_serialization=False),
    "sparse": saved({"conv1.weight": torch.eye(3).to_sparse()}),
    "meta": meta,
    "list": saved([torch.zeros(2)]),
    "numbers": saved({"conv1.weight": 3}),
    "keys": saved({3: torch.zeros(2)}),
    "other": saved({"layer.weight": torch.zeros(2)}),
    "expanded": saved({"conv1.weight": torch.zeros(1).expand(10**7, 1000)}),
}

ROOTS: dict[str, Make] = {  # of a data set
    "missing": lambda path: None,
    "file": holds("words"),
    "empty": lambda path: path.mkdir(),
    "circle": lambda path: path.symlink_to(path.name),
    "other": lambda path: (path / "photos").mkdir(parents=True),
}


HEADS = NO_FILES | NO_HEAD
FEW_HEADS = {kind: HEADS[kind] for kind in ("missing", "folder", "pipe", "cut", "version", "nan")}
FEW_WEIGHTS = {kind: (NO_FILES | WEIGHTS)[kind] for kind in ("missing", "pipe", "words", "code", "sparse")}
FAMILIES: dict[str, tuple[str, dict[str, Make]]] = {  # the ending of a family's files, and all kinds of them
    "photo": ("", {**PHOTOS, **{f"{name}.jpg": make for name, make in NO_FILES.items()}}),
    "points": (".json", NO_FILES | NO_TEXT | NO_JSON | NO_POINTS),
    "table": (
        ".csv",
        NO_FILES | NO_TEXT | {"words": holds("left eye,right eye\n"), "nan": holds("x,y\nnan,3\n")},
    ),
    "pairs": (".csv", {k: m for k, m in NO_FILES.items() if k != "folder"} | NO_TEXT | NO_PAIRS),
    "names": (".txt", NO_FILES | NO_TEXT | NO_NAMES),
    "recipe": (".toml", NO_FILES | {k: m for k, m in NO_TEXT.items() if k != "empty"} | NO_RECIPE),
    "annotations": (".json", NO_FILES | NO_TEXT | NO_JSON | NO_ANNOTATIONS),
    "xml": (".xml", {k: m for k, m in NO_FILES.items() if k != "folder"} | NO_XML),
    "predictions": (".npz", NO_FILES | NO_PREDICTIONS),
    "head": (".safetensors", HEADS),
    "few-heads": (".safetensors", FEW_HEADS),
    "recipe-in-head": (".safetensors", ONLY_FOR_SIZE),
    "weights": (".pth", NO_FILES | WEIGHTS),
    "few-weights": (".pth", FEW_WEIGHTS),
    "tensors": (
        ".safetensors",
        {k: NO_HEAD[k] for k in ("empty", "words", "header", "object", "deep", "cut", "other")},
    ),
    "root": ("", ROOTS),
}


def make_damaged(folder: Path) -> None:
    """Write every kind of every family: ``folder/FAMILY/KIND.ENDING``."""
    for family, (ending, kinds) in FAMILIES.items():
        (folder / family).mkdir(parents=True)
        for kind, make in kinds.items():
            make(folder / family / f"{kind}{ending}")
