"""A hook of MkDocs: formulas between dollar signs become MathML, which browsers show without any script."""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert

CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)
FORMULA = re.compile(r"\$([^$\n]+)\$")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Convert them outside of code."""
    parts = CODE.split(markdown)
    parts[::2] = [FORMULA.sub(lambda found: convert(found[1]), part) for part in parts[::2]]
    return "".join(parts)
