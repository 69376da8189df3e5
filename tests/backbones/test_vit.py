"""DINOv2: equal to a literal transformer, whatever names its weights have; and storage in 8 bits."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.testing import assert_close

from dhpf import InputError
from dhpf.backbones.state import dequantised, quantised
from dhpf.backbones.vit import HUGGING_FACE, ViT
from dhpf.backbones.weights import ASSETS, BACKBONES, load_backbone
from dhpf.grid import Grid

State = dict[str, Tensor]


def normalised(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    mean = x.mean(-1, keepdim=True)
    variance = (x - mean).square().mean(-1, keepdim=True)
    return (x - mean) / (variance + 1e-6).sqrt() * weight + bias


def gelu(x: Tensor) -> Tensor:
    return x * (1 + torch.erf(x / math.sqrt(2))) / 2


def cubic(distance: float, a: float) -> float:
    """Keys' kernel."""
    t = abs(distance)
    if t < 1:
        return (a + 2) * t**3 - (a + 3) * t**2 + 1
    return a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a if t < 2 else 0.0


def bicubic(count: int, smoothed: bool) -> Tensor:
    """The matrix (count, 37) that resizes 37 samples to so many, by the definition."""
    matrix, ratio = torch.zeros(count, 37, dtype=torch.float64), 37 / count
    for row in range(count):
        centre = (row + 0.5) * ratio - 0.5  # in samples
        if smoothed:  # the kernel widens where samples become fewer; what lies outside does not count
            width = max(ratio, 1.0)
            inside = [k for k in range(37) if abs(k - centre) < 2 * width]
            weights = [cubic((k - centre) / width, -0.5) for k in inside]
            matrix[row, inside] = torch.tensor(weights, dtype=torch.float64) / sum(weights)
        else:  # the border is repeated
            for k in range(math.floor(centre) - 1, math.floor(centre) + 3):
                matrix[row, min(max(k, 0), 36)] += cubic(k - centre, -0.75)
    return matrix


def literal_vit(state: State, image: Tensor, heads: int, registers: int = 0) -> list[Tensor]:
    """The patch tokens (C, h, w) after every block of one image (3, H, W), by the definition."""
    rows, columns = image.shape[1] // 14, image.shape[2] // 14
    kernel, bias = state["patch_embed.proj.weight"], state["patch_embed.proj.bias"]
    channels = len(bias)
    patches = image.reshape(3, rows, 14, columns, 14).permute(1, 3, 0, 2, 4).reshape(rows * columns, -1)
    tokens = patches @ kernel.reshape(channels, -1).T + bias
    learned = state["pos_embed"][0, 1:].T.reshape(channels, 37, 37).double()
    resized = bicubic(rows, registers > 0) @ learned @ bicubic(columns, registers > 0).T
    tokens = tokens + resized.reshape(channels, -1).T.to(tokens)
    first = state["cls_token"][0] + state["pos_embed"][0, :1]
    extra = state["register_tokens"][0] if registers else first[:0]
    x = torch.cat([first, extra, tokens])
    found = []
    for block in range(1 + max(int(key.split(".")[1]) for key in state if key.startswith("blocks."))):
        own = {
            key.split(".", 2)[2]: value for key, value in state.items() if key.startswith(f"blocks.{block}.")
        }
        y = normalised(x, own["norm1.weight"], own["norm1.bias"])
        q, k, v = (y @ own["attn.qkv.weight"].T + own["attn.qkv.bias"]).split(channels, 1)
        mixed = []
        for head in range(heads):
            part = slice(head * channels // heads, (head + 1) * channels // heads)
            scores = q[:, part] @ k[:, part].T / math.sqrt(channels // heads)
            weights = (scores - scores.amax(1, keepdim=True)).exp()
            mixed.append(weights @ v[:, part] / weights.sum(1, keepdim=True))
        y = torch.cat(mixed, 1) @ own["attn.proj.weight"].T + own["attn.proj.bias"]
        x = x + own["ls1.gamma"] * y
        y = normalised(x, own["norm2.weight"], own["norm2.bias"])
        y = gelu(y @ own["mlp.fc1.weight"].T + own["mlp.fc1.bias"]) @ own["mlp.fc2.weight"].T
        x = x + own["ls2.gamma"] * (y + own["mlp.fc2.bias"])
        found.append(x[1 + registers :].T.reshape(channels, rows, columns))
    return found


@pytest.mark.parametrize("size", [(224, 224), (70, 154), (518, 28)])
def test_bundled_weights_as_the_literal_transformer(size: tuple[int, int]) -> None:
    state = {
        key: value.double()
        for key, value in dequantised(load_file(ASSETS / "dinov2_vits14.safetensors")).items()
    }
    image = torch.randn(3, size[1], size[0], generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    expected = literal_vit(state, image, heads=6)
    network = load_backbone("dinov2-vits14")
    found = network(image[None].float())
    assert list(found) == list(range(12)) and network.channels == (384,) * 12
    for layer, wanted in enumerate(expected):
        # Float32 keeps 24 bits; twelve blocks of sums over 1536 products lose some of them.
        assert_close(found[layer][0].double(), wanted, rtol=0, atol=2e-5 * float(wanted.abs().max()))
    some = network(image[None].float(), [2, 9])
    assert list(some) == [2, 9]
    assert_close(some[9], found[9], rtol=0, atol=0)


def small_state(width: str, registers: int, blocks: int = 2) -> State:
    """Random weights of the right shapes, with few blocks."""
    with torch.device("meta"):
        shapes = {key: value.shape for key, value in ViT(width, registers).state_dict().items()}
    generator = torch.Generator().manual_seed(0)
    return {
        key: torch.randn(shape, generator=generator) * (0.02 if len(shape) > 1 else 0.3)
        for key, shape in shapes.items()
        if not key.startswith("blocks.") or int(key.split(".")[1]) < blocks
    }


@pytest.mark.parametrize(
    ("width", "registers", "heads"), [("small", 4, 6), ("base", 0, 12), ("large", 4, 16)]
)
def test_register_tokens_and_widths(width: str, registers: int, heads: int) -> None:
    state = small_state(width, registers)
    network = ViT(width, registers)
    network.blocks = network.blocks[:2]
    network.load_state_dict(state)
    image = torch.randn(3, 98, 42, generator=torch.Generator().manual_seed(2))
    found = network(image[None], [0, 1])
    for layer, wanted in enumerate(literal_vit(state, image, heads, registers)):
        assert_close(found[layer][0], wanted, rtol=0, atol=1e-5 * float(wanted.abs().max()))


def test_where_the_cells_lie() -> None:
    grid = ViT("small").grid((448, 224))
    # The first patch covers pixels 0 to 13; half-way to the next centre lies another cell.
    assert grid == Grid(31, 63, stride=7.0, offset=6.5)
    assert grid.centres()[0, 2].tolist() == [20.5, 6.5]
    assert grid.with_shape(16, 32) == Grid(16, 32, stride=14.0, offset=6.5)


def to_hugging_face(state: State) -> State:
    """The same weights under the other names."""
    theirs: State = {}
    for key, value in state.items():
        name = key
        for other, official in HUGGING_FACE.items():
            if official in name and not (official == "norm." and "blocks." in name):
                name = name.replace(official, other)
        if "attn.qkv" in name:
            for part, piece in zip(("query", "key", "value"), value.chunk(3), strict=True):
                theirs[name.replace("attn.qkv", f"attention.attention.{part}")] = piece.clone()
        else:
            theirs[name] = value
    return theirs


def test_files_with_official_and_other_names_give_the_same(tmp_path: Path) -> None:
    state = dequantised(load_file(ASSETS / "dinov2_vits14.safetensors"))
    official, other = tmp_path / "official.safetensors", tmp_path / "other.safetensors"
    save_file({**state, "mask_token": torch.zeros(1, 384)}, official)
    renamed = to_hugging_face(state)
    assert "encoder.layer.3.attention.attention.key.weight" in renamed and "embeddings.cls_token" in renamed
    save_file(renamed, other)
    within = tmp_path / "classifier.safetensors"
    save_file({f"dinov2.{key}": v for key, v in renamed.items()} | {"classifier.bias": torch.ones(9)}, within)
    image = torch.randn(1, 3, 56, 70, generator=torch.Generator().manual_seed(3))
    expected = load_backbone("dinov2-vits14")(image, [11])[11]
    for path in (official, other, within):
        assert_close(load_backbone("dinov2-vits14", path)(image, [11])[11], expected, rtol=0, atol=0)


def test_a_wrong_file_is_named(tmp_path: Path) -> None:
    state = dequantised(load_file(ASSETS / "dinov2_vits14.safetensors"))
    del state["blocks.7.ls2.gamma"]
    save_file(state, tmp_path / "damaged.safetensors")
    with pytest.raises(
        InputError, match=r"is not a DINOv2 ViT-S/14: 1 weights missing.*blocks\.7\.ls2\.gamma"
    ):
        load_backbone("dinov2-vits14", tmp_path / "damaged.safetensors")
    with pytest.raises(InputError, match="is not a DINOv2 ViT-B/14 with registers"):
        load_backbone("dinov2-vitb14-registers", ASSETS / "dinov2_vits14.safetensors")
    resnet = ASSETS / BACKBONES["resnet50-msra"].source
    with pytest.raises(InputError, match="is not a DINOv2 ViT-S/14"):
        load_backbone("dinov2-vits14", resnet)


def test_eight_bits_keep_what_they_can() -> None:
    weight = torch.tensor([[127.0, -63.5, 1.0], [0.0, 0.0, 0.0], [-2.54, 0.02, 1.27]])
    state = {"w": weight, "bias": torch.tensor([0.1, 0.2, 0.3]), "pos_embed": torch.rand(1, 5, 3)}
    stored = quantised(state)
    # One step is the row's largest value / 127: 1, none, 0.02. A half rounds to even.
    assert stored["w"].tolist() == [[127, -64, 1], [0, 0, 0], [-127, 1, 64]]
    restored = dequantised(stored)
    assert set(restored) == set(state)
    assert_close(restored["w"], torch.tensor([[127.0, -64, 1], [0, 0, 0], [-2.54, 0.02, 1.28]]))
    assert restored["bias"].equal(state["bias"])
    assert stored["pos_embed"].dtype == torch.float16  # added, not multiplied: no channel to scale
