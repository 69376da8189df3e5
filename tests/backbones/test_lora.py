"""Low-rank updates: zero at first, then what added matrices are; what they need, and what learns."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from dhpf import InputError
from dhpf.backbones.base import Features, ForegroundProbe, extract
from dhpf.backbones.lora import MATRICES, LoRA
from dhpf.backbones.resnet import ResNet
from dhpf.backbones.vit import ViT

from .test_vit import literal_vit, small_state

BLOCKS = 4


@pytest.fixture(scope="module", params=[0, 4], ids=["plain", "registers"])
def network(request: pytest.FixtureRequest) -> ViT:
    """Four blocks with random weights."""
    vit = ViT("small", request.param)
    vit.blocks = vit.blocks[:BLOCKS]
    vit.channels = vit.channels[:BLOCKS]
    vit.load_state_dict(small_state("small", request.param, BLOCKS))
    return vit


def image(seed: int) -> Tensor:
    return torch.randn(3, 42, 70, generator=torch.Generator().manual_seed(seed))


def updates(network: ViT) -> LoRA:
    """Of the last two blocks, none of them zero."""
    found, generator = LoRA(network, 2, 3), torch.Generator().manual_seed(5)
    for value in found.parameters():
        value.data.copy_(0.1 * torch.randn(value.shape, generator=generator))
    return found


def literally(network: ViT, found: LoRA) -> dict[str, Tensor]:
    """The network's weights, each product of thin matrices added by hand."""
    state = {key: value.clone() for key, value in network.state_dict().items()}
    for place, block in enumerate(found.blocks):
        for name, path in MATRICES.items():
            up, down = (block.get_parameter(f"{name}.{part}") for part in ("up", "down"))
            state[f"blocks.{BLOCKS - 2 + place}.{path}"] += sum(
                torch.outer(up[:, rank], down[rank]) for rank in range(3)
            )
    return {key: value.detach() for key, value in state.items()}


def test_they_begin_as_nothing(network: ViT) -> None:
    seen = extract(network, image(0))
    (found,) = LoRA(network, 2, 3)(network, [seen])
    for layer, block in seen.blocks.items():
        assert_close(found.blocks[layer], block, rtol=0, atol=1e-6)


def test_merged_is_the_literal_sum(network: ViT) -> None:
    found = updates(network)
    state = {key: value.clone() for key, value in network.state_dict().items()}
    merged = found.merged(network)
    expected = literal_vit(literally(network, found), image(1), 6, network.registers)
    plain = literal_vit(state, image(1), 6, network.registers)
    for layer, block in merged(image(1)[None]).items():
        assert_close(block[0], expected[layer], rtol=0, atol=1e-5 * float(expected[layer].abs().max()))
        differs = float((expected[layer] - plain[layer]).abs().max()) > 0.1
        assert differs == (layer >= BLOCKS - 2)
    for key, value in network.state_dict().items():  # the network given is as it was
        assert torch.equal(value, state[key]), key
        shared = value.data_ptr() == merged.state_dict()[key].data_ptr()
        updated = key.startswith(("blocks.2.", "blocks.3.")) and key.endswith(tuple(MATRICES.values()))
        assert shared != updated, key


def test_what_tells_objects_from_surroundings_holds_below_the_updates(network: ViT) -> None:
    found = updates(network)
    for layer in range(BLOCKS):
        network.foreground = ForegroundProbe(layer, torch.zeros(384), torch.zeros(()))
        merged = found.merged(network)
        assert (merged.foreground is None) == (layer >= BLOCKS - 2)
    network.foreground = None


def test_images_are_seen_anew_as_the_merged_network_sees_them(network: ViT) -> None:
    found = updates(network)
    images = [image(seed) for seed in (2, 3, 4)]
    anew = found(network, [extract(network, one) for one in images])
    merged = found.merged(network)
    for one, seen in zip(images, anew, strict=True):
        expected = extract(merged, one)
        for layer in range(BLOCKS):
            assert_close(seen.blocks[layer], expected.blocks[layer], rtol=0, atol=1e-4)
            assert_close(seen.pooled[layer], expected.pooled[layer], rtol=0, atol=1e-4)


def test_layers_that_nobody_asked_for_are_left_out(network: ViT) -> None:
    found = updates(network)
    (seen,) = found(network, [extract(network, image(2), [found.needed, 3])])
    assert list(seen.blocks) == list(seen.pooled) == [1, 3]


def test_gradients(network: ViT) -> None:
    """As finite differences of the literal transformer have them."""
    found = updates(network).double()
    one = image(6).double()
    seen = extract(network, one.float())
    seen = Features(
        {n: block.double() for n, block in seen.blocks.items()},
        {n: mean.double() for n, mean in seen.pooled.items()},
        seen.grid,
        tokens={n: some.double() for n, some in seen.tokens.items()},
    )
    weight = torch.randn(3, 5, 384, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    (anew,) = found(network.double(), [seen])
    (anew.blocks[3] * weight).sum().backward()
    network.float()

    def loss() -> float:
        changed = literally(network, found)
        doubles = {key: value.double() for key, value in changed.items()}
        return float((literal_vit(doubles, one, 6, network.registers)[3].permute(1, 2, 0) * weight).sum())

    for name in ("blocks.0.qkv.up", "blocks.1.fc1.down", "blocks.1.proj.up"):
        value = found.get_parameter(name)
        direction = torch.randn(value.shape, generator=torch.Generator().manual_seed(8), dtype=torch.float64)
        step = 1e-4
        with torch.no_grad():
            value += step * direction
            above = loss()
            value -= 2 * step * direction
            below = loss()
            value += step * direction
        assert value.grad is not None
        assert (above - below) / (2 * step) == pytest.approx(float((value.grad * direction).sum()), rel=1e-3)


def test_what_cannot_be_updated() -> None:
    with pytest.raises(InputError, match="lora_blocks = 2; wanted 0: ResNet-50 is no vision transformer"):
        LoRA(ResNet(50), 2, 16)
    with pytest.raises(InputError, match=r"lora_blocks = 12; wanted at most 11 for DINOv2 ViT-S/14"):
        LoRA(ViT("small"), 12, 16)
