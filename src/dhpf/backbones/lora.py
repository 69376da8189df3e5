"""LoRA (Hu et al., 2021): low-rank updates of a vision transformer's last blocks, which a head may learn.

The backbone stays as it is: an update is a product of two thin matrices that is added to one of its own.
In training, the updated blocks compute anew from the features of the last block before them. To match, the
updates are added once and for all, so they take no time.

B images  T tokens  C channels of a matrix's input, C' of its output  r rank  h, w patches
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ..errors import InputError
from .base import Backbone, Features
from .vit import ViT

MATRICES = {
    "qkv": "attn.qkv.weight",
    "proj": "attn.proj.weight",
    "fc1": "mlp.fc1.weight",
    "fc2": "mlp.fc2.weight",
}


class Update(nn.Module):
    """What is added to one matrix: zero at first, along random directions that are always the same."""

    def __init__(self, matrix: Tensor, rank: int, generator: torch.Generator) -> None:
        super().__init__()
        outputs, inputs = matrix.shape
        uniform = torch.rand(rank, inputs, generator=generator, device="cpu")
        self.down = nn.Parameter((2 * uniform - 1) * inputs**-0.5)  # (r, C)
        self.up = nn.Parameter(torch.zeros(outputs, rank))  # (C', r)

    def forward(self) -> Tensor:
        return self.up @ self.down


class BlockUpdate(nn.Module):
    """Updates of all matrices of one block."""

    def __init__(self, block: nn.Module, rank: int, generator: torch.Generator) -> None:
        super().__init__()
        for name, path in MATRICES.items():
            self.add_module(name, Update(block.get_parameter(path), rank, generator))

    def forward(self, block: nn.Module) -> dict[str, Tensor]:
        """The block's matrices with their updates, by their names in the block."""
        return {
            path: block.get_parameter(path) + self.get_submodule(name)() for name, path in MATRICES.items()
        }


class LoRA(nn.Module):
    """Updates of a vision transformer's last blocks.

    Parameters
    ----------
    count
        How many of the backbone's blocks are updated.
    rank
        Of each update.
    """

    def __init__(self, backbone: Backbone, count: int, rank: int) -> None:
        super().__init__()
        if not isinstance(backbone, ViT):
            raise InputError(f"lora_blocks = {count}; wanted 0: {backbone.title} is no vision transformer")
        most = len(backbone.blocks) - 1
        if count > most:
            raise InputError(f"lora_blocks = {count}; wanted at most {most} for {backbone.title}")
        self.first = len(backbone.blocks) - count
        self.needed = self.first - 1  # the layer from which the updated ones are computed
        generator = torch.Generator().manual_seed(0)
        self.blocks = nn.ModuleList(
            BlockUpdate(block, rank, generator) for block in backbone.blocks[self.first :]
        )

    def forward(self, backbone: Backbone, images: Sequence[Features]) -> list[Features]:
        """The features of images of equal size as the frozen backbone sees them, with the updated layers
        computed anew. Gates see what changes in them, but do not change it."""
        like = backbone.get_parameter("cls_token")
        tokens = torch.stack([one.tokens[self.needed].to(like) for one in images])
        patches = torch.stack([one.blocks[self.needed].to(like) for one in images])  # (B, h, w, C)
        x = torch.cat([tokens, patches.flatten(1, 2)], 1)  # (B, T, C)
        found: dict[int, Tensor] = {}
        for layer, update in enumerate(self.blocks, self.first):
            block = backbone.get_submodule(f"blocks.{layer}")
            x = functional_call(block, update(block), x)
            found[layer] = x[:, tokens.shape[1] :].unflatten(1, patches.shape[1:3])
        means = {layer: blocks.detach().mean((1, 2)) for layer, blocks in found.items()}
        each = {layer: blocks.unbind() for layer, blocks in found.items()}
        return [
            replace(
                one,
                blocks={n: each[n][k] if n in each else block for n, block in one.blocks.items()},
                pooled={n: means[n][k].to(mean) if n in means else mean for n, mean in one.pooled.items()},
            )
            for k, one in enumerate(images)
        ]

    def squares(self) -> list[Tensor]:
        """Of each update, the sum of its squares: finite if the update is."""
        return [update().square().sum() for update in self.modules() if isinstance(update, Update)]

    @torch.no_grad()
    def merged(self, backbone: Backbone) -> Backbone:
        """The backbone with the updates added; it shares all other weights with the one given. What tells
        objects from their surroundings in a layer that changes does not hold any more."""
        changed: dict[str, Tensor] = {}
        for layer, update in enumerate(self.blocks, self.first):
            prefix = f"blocks.{layer}."
            updated = update(backbone.get_submodule(f"blocks.{layer}"))
            changed |= {prefix + path: weight for path, weight in updated.items()}
        kept = {id(value): value for name, value in backbone.named_parameters() if name not in changed}
        result = copy.deepcopy(backbone, kept)
        for name, weight in changed.items():
            result.get_parameter(name).copy_(weight)
        if result.foreground is not None and result.foreground.layer >= self.first:
            result.foreground = None
        return result
