"""The backbone: shapes, strides, folding, and what the bundled weights recognise."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from dhpf.backbones.resnet import ResNet
from dhpf.backbones.weights import load_backbone
from dhpf.grid import Grid


def literal_bottleneck(block, x):
    y = F.relu(block.bn1(block.conv1(x)))
    y = F.relu(block.bn2(block.conv2(y)))
    y = block.bn3(block.conv3(y))
    return y + (x if block.downsample is None else block.downsample(x))


@pytest.mark.parametrize(("depth", "blocks"), [(50, 17), (101, 34)])
def test_number_and_channels_of_blocks(depth: int, blocks: int) -> None:
    with torch.device("meta"):
        network = ResNet(depth)
    stage3 = blocks - 11
    assert network.channels == (64, *[256] * 3, *[512] * 4, *[1024] * stage3, *[2048] * 3)


def test_key_names_are_torchvisions() -> None:
    with torch.device("meta"):
        keys = ResNet(50).state_dict().keys()
    assert len(keys) == 318  # torchvision's 320 without fc.weight and fc.bias
    assert {"conv1.weight", "bn1.running_var", "layer2.0.downsample.1.bias", "layer4.2.conv3.weight"} <= keys


@pytest.mark.parametrize("stride_in_1x1", [False, True])
def test_blocks_are_the_sums_before_their_relu(stride_in_1x1: bool) -> None:
    torch.manual_seed(0)
    network = ResNet(50, stride_in_1x1)
    first = network.layer2[0]
    assert (first.conv1.stride, first.conv2.stride) == (
        ((2, 2), (1, 1)) if stride_in_1x1 else ((1, 1), (2, 2))
    )
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    image = torch.randn(2, 3, 50, 66)
    x = F.max_pool2d(F.relu(network.bn1(network.conv1(image))), 3, 2, 1)
    expected = [x]
    for stage in (network.layer1, network.layer2, network.layer3, network.layer4):
        for block in stage:
            x = literal_bottleneck(block, F.relu(x))
            expected.append(x)
    blocks = network(image)
    assert list(blocks) == list(range(17))
    for layer, wanted in enumerate(expected):
        assert_close(blocks[layer], wanted)
    assert any((block < 0).any() for block in expected[1:])  # before the ReLU, not after
    blocks = network.for_inference()(image)
    for layer, wanted in enumerate(expected):
        assert_close(blocks[layer], wanted, rtol=1e-4, atol=1e-4 * float(wanted.abs().max()))
    assert list(network(image, [4, 2])) == [4, 2]
    assert_close(network(image, [4])[4], blocks[4])


@pytest.mark.parametrize("size", [(64, 64), (97, 130), (33, 60)])
def test_the_grid_is_where_the_base_block_looks(size: tuple[int, int]) -> None:
    """A cell's value depends on pixels as far to its left as to its right, as far above as below."""
    network = ResNet(50)
    with torch.no_grad():
        network.conv1.weight.fill_(1.0)
    grid = network.grid(size)
    assert grid == Grid(-(-size[1] // 4), -(-size[0] // 4), 4.0, 0.0)
    image = torch.zeros(1, 3, size[1], size[0])
    assert tuple(network(image, [0])[0].shape[2:]) == grid.shape
    seen = []
    for column in range(size[0]):
        marked = image.clone()
        marked[..., column] = 1.0
        seen.append(float(network(marked, [0])[0][0, 0, 5, 6]) > 0)
    x = grid.centres()[5, 6, 0]
    columns = [column for column, flag in enumerate(seen) if flag]
    assert (columns[0] + columns[-1]) / 2 == x


def test_it_stays_frozen() -> None:
    with torch.device("meta"):
        network = ResNet(50).train()
    assert not any(module.training for module in network.modules())
    assert not any(parameter.requires_grad for parameter in network.parameters())


def test_bundled_weights_tell_cats_from_noise() -> None:
    """The deepest features of two cat-like photos are nearer to each other than either to noise."""
    from dhpf import sample
    from dhpf.images import read_image, to_input

    network = load_backbone("resnet50-msra")
    photos = [
        to_input(read_image(sample(name)), (240, 240), network.mean, network.std)
        for name in ("cheetah", "cheetah_cub")
    ]
    noise = torch.randn(1, 3, 240, 240, generator=torch.Generator().manual_seed(0))
    cheetah, cub, other = (
        F.normalize(network(x)[16].relu().mean((2, 3))[0], dim=0) for x in (*photos, noise)
    )
    assert cheetah @ cub > 0.5 > max(cheetah @ other, cub @ other)
