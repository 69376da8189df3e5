"""What the tests of the documentation share: the pages, and the blocks of code on them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """Code between fences."""

    language: str  # may be empty
    text: str
    line: int  # of the page, where the code begins


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    return [Block(m[1], m[2], text.count("\n", 0, m.start(2)) + 1) for m in FENCE.finditer(text)]


def prose(text: str) -> str:
    """A page without its fenced blocks."""
    return FENCE.sub("", text)


def shell_lines(text: str) -> list[list[str]]:
    """The commands of a block, as words: lines continued, prompts and comments gone."""
    joined = text.replace("\\\n", " ")
    lines = (line.removeprefix("$ ") for line in joined.splitlines())
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def dhpf_arguments(words: list[str]) -> list[str] | None:
    """What ``dhpf`` gets, also where torchrun starts it; None for other commands."""
    return words[words.index("dhpf") + 1 :] if words[0] in ("dhpf", "torchrun") and "dhpf" in words else None
