"""From the paper to the code: every file and name on the page exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from .pages import DOCS, ROOT, prose

SOURCE = ROOT / "src" / "dhpf"
PAGE = prose((DOCS / "paper_to_code.md").read_text(encoding="utf-8"))
QUOTED = re.compile(r"`([^`]+)`")


def names_in(path: Path) -> set[str]:
    """Functions, classes, and methods as Class.method; inherited ones are named by their own class."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {
                f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)
            }
    return found


def places() -> list[tuple[str, str]]:
    """All (file, name) of the tables: the names that follow a file in its cell."""
    found = []
    for cell in (cell for line in PAGE.splitlines() if line.startswith("|") for cell in line.split("|")):
        file = ""
        for quoted in QUOTED.findall(cell):
            if re.fullmatch(r"[\w/]+\.py", quoted):
                file = quoted
                found.append((file, ""))
            elif file and re.fullmatch(r"[A-Za-z_]\w*(\.\w+)?", quoted) and quoted not in ("true", "false"):
                found.append((file, quoted))
    return found


@pytest.mark.parametrize(("file", "name"), sorted(set(places())))
def test_it_exists(file: str, name: str) -> None:
    path = next((base / file for base in (SOURCE, ROOT) if (base / file).is_file()), None)
    assert path is not None, file
    if name and not name.startswith(("Match.", "loss.", "head.")) and name != "rows":
        assert name in names_in(path), f"{file} has no {name}"


def test_every_part_is_on_the_page() -> None:
    assert len(places()) > 60
    mentioned = {file.split("/")[0] for file, _ in places() if "/" in file}
    assert {
        "backbones",
        "model",
        "fast",
        "methods",
        "losses",
        "train",
        "data",
        "evaluate",
        "analysis",
        "viz",
    } <= mentioned
