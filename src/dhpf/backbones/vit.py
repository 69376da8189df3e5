"""Vision transformers of DINOv2: ViT-S/14, B/14 and L/14, with and without register tokens.

The modules carry the key names of the official checkpoints. A layer is a block's patch tokens. They lie 14
pixels apart; the base grid has a cell between any two of them as well, to which resizing interpolates.

B batch  T tokens  C channels  h, w patches
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..grid import Grid, Size
from .base import Backbone

PATCH = 14
TRAINED = 37  # patches a side of the images that it was trained on
WIDTHS = {"small": (384, 6, 12), "base": (768, 12, 12), "large": (1024, 16, 24)}  # channels, heads, blocks
EPSILON = 1e-6
PREFIX = re.compile("^dinov2(_with_registers)?[.]")
HUGGING_FACE = {  # its names of parts, and the official ones
    "embeddings.cls_token": "cls_token",
    "embeddings.mask_token": "mask_token",
    "embeddings.register_tokens": "register_tokens",
    "embeddings.position_embeddings": "pos_embed",
    "embeddings.patch_embeddings.projection": "patch_embed.proj",
    "encoder.layer.": "blocks.",
    "attention.output.dense": "attn.proj",
    "layer_scale1.lambda1": "ls1.gamma",
    "layer_scale2.lambda1": "ls2.gamma",
    "layernorm.": "norm.",
}


class Attention(nn.Module):
    """Multi-head self-attention."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(channels, 3 * channels)
        self.proj = nn.Linear(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, channels = x.shape
        q, k, v = (
            self.qkv(x).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        )  # (B, heads, T, d)
        mixed = F.scaled_dot_product_attention(q, k, v)
        projected: Tensor = self.proj(mixed.transpose(1, 2).reshape(batch, tokens, channels))
        return projected


class LayerScale(nn.Module):
    """A learned factor for each channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gamma


class Mlp(nn.Module):
    """Two linear layers with a GELU between them."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(channels, 4 * channels)
        self.fc2 = nn.Linear(4 * channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        reduced: Tensor = self.fc2(F.gelu(self.fc1(x)))
        return reduced


class Block(nn.Module):
    """Attention and perceptron, each normalised before and scaled after."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(channels, EPSILON)
        self.attn = Attention(channels, heads)
        self.ls1 = LayerScale(channels)
        self.norm2 = nn.LayerNorm(channels, EPSILON)
        self.mlp = Mlp(channels)
        self.ls2 = LayerScale(channels)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.ls1(self.attn(self.norm1(x)))
        x = x + self.ls2(self.mlp(self.norm2(x)))
        return x


class ViT(Backbone):
    """DINOv2.

    Parameters
    ----------
    width
        ``small``, ``base`` or ``large``.
    registers
        Register tokens: 0 or 4.
    """

    multiple = PATCH
    has_tokens = True
    unused = ("mask_token", "norm.")  # the norm after the last block is of use to the class token only

    def __init__(self, width: str, registers: int = 0) -> None:
        super().__init__()
        channels, heads, blocks = WIDTHS[width]
        self.title = f"DINOv2 ViT-{width[0].upper()}/14" + (" with registers" if registers else "")
        self.cls_token = nn.Parameter(torch.zeros(1, 1, channels))
        self.pos_embed = nn.Parameter(torch.zeros(1, 1 + TRAINED**2, channels))
        if registers:
            self.register_tokens = nn.Parameter(torch.zeros(1, registers, channels))
        self.registers = registers
        self.patch_embed = nn.ModuleDict({"proj": nn.Conv2d(3, channels, PATCH, stride=PATCH)})
        self.blocks = nn.ModuleList(Block(channels, heads) for _ in range(blocks))
        self.channels = (channels,) * blocks
        self.requires_grad_(False)
        self.eval()

    def grid(self, size: Size) -> Grid:
        """The patches' centres, and a cell half-way between any two."""
        columns, rows = (2 * (pixels // PATCH) - 1 for pixels in size)
        return Grid(rows, columns, stride=PATCH / 2, offset=(PATCH - 1) / 2)

    @torch.no_grad()
    def forward(self, images: Tensor, layers: Sequence[int] | None = None) -> dict[int, Tensor]:
        """Layer l holds the patch tokens after block l."""
        return self.with_tokens(images, layers)[0]

    @torch.no_grad()
    def with_tokens(
        self, images: Tensor, layers: Sequence[int] | None = None
    ) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
        """And its class and register tokens."""
        wanted = range(len(self.blocks)) if layers is None else layers
        patches = self.patch_embed["proj"](images)  # (B, C, h, w)
        x = patches.flatten(2).mT + self._positions(patches.shape[2], patches.shape[3])
        first = [(self.cls_token + self.pos_embed[:, :1]).expand(len(x), -1, -1)]
        if self.registers:
            first.append(self.register_tokens.expand(len(x), -1, -1))
        x = torch.cat([*first, x], 1)
        skipped = 1 + self.registers
        found = {}
        for layer, block in enumerate(self.blocks[: max(wanted) + 1]):
            x = block(x)
            if layer in wanted:
                found[layer] = x
        maps = {layer: found[layer][:, skipped:].mT.reshape_as(patches) for layer in wanted}
        return maps, {layer: found[layer][:, :skipped] for layer in wanted}

    def _positions(self, rows: int, columns: int) -> Tensor:
        """The patches' position embeddings, resized to the grid: (1, h*w, C).

        To its size, as Hugging Face does; without registers, the official code scales by (n + 0.1) / 37.
        """
        learned = self.pos_embed[:, 1:].mT.reshape(1, -1, TRAINED, TRAINED)
        # As trained: those with registers saw position embeddings that were smoothed before they shrank.
        resized = F.interpolate(learned, (rows, columns), mode="bicubic", antialias=self.registers > 0)
        return resized.flatten(2).mT

    def renamed(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The weights under the official key names; Hugging Face has others, and three matrices for one."""
        renamed = {}
        for name, value in state.items():
            if name.startswith("classifier."):  # of a classification model, whose backbone has a prefix
                continue
            key = PREFIX.sub("", name)
            for theirs, ours in HUGGING_FACE.items():
                key = key.replace(theirs, ours)
            renamed[key] = value
        for key in [key for key in renamed if ".attention.attention.query." in key]:
            names = [key.replace("query", part) for part in ("query", "key", "value")]
            if all(name in renamed for name in names):
                parts = [renamed.pop(name) for name in names]
                renamed[key.replace("attention.attention.query", "attn.qkv")] = torch.cat(parts)
        return renamed
