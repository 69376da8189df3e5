"""A hook of MkDocs: the tables of all settings of a recipe, from the code that defines them."""

from __future__ import annotations

import inspect
import re
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_type_hints

MARK = "<!-- settings -->"
COMMENT = re.compile(r"^    (\w+): .*  # (.+)$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the tables in the place of their mark."""
    return markdown.replace(MARK, "\n\n".join(tables())) if MARK in markdown else markdown


def tables() -> list[str]:
    """One table for each section of a recipe of DHPF, the first for what stands above all sections."""
    from dhpf.methods.dhpf import DHPF
    from dhpf.train.config import config_of

    recipe = config_of(DHPF)
    hints = get_type_hints(recipe)
    sections = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    made = [table("", recipe, "A whole recipe.", skip=sections)]
    for name, kind in sections.items():
        made.append(table(f"{name}.", kind, inspect.getdoc(kind) or "", skip={}))
    return made


def table(prefix: str, kind: type[Any], title: str, skip: dict[str, Any]) -> str:
    """Key, default and meaning of each field; the meaning is the comment behind it."""
    sources = [inspect.getsource(base) for base in kind.__mro__[:-1] if base.__module__ != "types"]
    meanings = dict(found for source in reversed(sources) for found in COMMENT.findall(source))
    rows = [
        f"| `{prefix}{one.name}` | `{toml(default(one))}` | {meanings.get(one.name, '')} |"
        for one in fields(kind)
        if one.name not in skip
    ]
    return "\n".join([f"**{title}**", "", "| Key | Default | |", "|---|---|---|", *rows])


def default(one: Any) -> Any:
    """Of a field."""
    return one.default_factory() if one.default is MISSING else one.default


def toml(value: object) -> str:
    """As a recipe writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple):
        return f"[{', '.join(map(toml, value))}]"
    return str(value)
