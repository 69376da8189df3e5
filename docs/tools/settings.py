"""A hook of MkDocs: the tables of all settings of a recipe, from the code that defines them."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig

MARK = "<!-- settings -->"
CODE = Path("src/dhpf/train/config.py")
COMMENT = re.compile(r"  # (.+)$")


def on_page_markdown(markdown: str, config: MkDocsConfig, **_: Any) -> str:
    """Put the tables in the place of their mark."""
    if MARK not in markdown:
        return markdown
    text = (Path(config.docs_dir).parent / CODE).read_text(encoding="utf-8")
    return markdown.replace(MARK, "\n\n".join(tables(text)))


def tables(text: str) -> list[str]:
    """One table for each section of a recipe, the first for what stands above all sections."""
    classes = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)}
    lines = text.splitlines()
    sections = {"": classes["Config"]}
    for key, kind, _, _ in fields(classes["Config"], lines):
        if kind in classes:
            sections[f"{key}."] = classes[kind]
    made = []
    for prefix, section in sections.items():
        rows = [
            f"| `{prefix}{key}` | `{default}` | {meaning} |"
            for key, kind, default, meaning in fields(section, lines)
            if kind not in classes
        ]
        title = f"{ast.get_docstring(section)}"
        made.append("\n".join([f"**{title}**", "", "| Key | Default | |", "|---|---|---|", *rows]))
    return made


def fields(section: ast.ClassDef, lines: list[str]) -> list[tuple[str, str, str, str]]:
    """Name, type, default and meaning of each field."""
    found = []
    for node in section.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            comment = COMMENT.search(lines[(node.end_lineno or node.lineno) - 1])
            default = ast.unparse(node.value)
            default = default if isinstance(node.value, ast.Call) else toml(ast.literal_eval(default))
            found.append(
                (node.target.id, ast.unparse(node.annotation), default, comment[1] if comment else "")
            )
    return found


def toml(value: object) -> str:
    """As a recipe writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple):
        return f"[{', '.join(map(toml, value))}]"
    return str(value)
