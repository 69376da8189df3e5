"""The public names, and the one direction of imports."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

import dhpf

PACKAGE = Path(dhpf.__file__).parent

# What may be imported by what: each part only imports parts of its own or an earlier row.
ROWS = (
    ("errors", "__version__"),
    ("files", "grid", "memory", "processes", "samples", "points", "images", "pair_list"),
    ("model",),
    ("closer", "match", "matcher"),
    ("outputs", "many"),
    ("data",),
    ("losses", "evaluate"),
    ("train", "baselines"),
    ("analysis", "viz"),
    ("cli", "web"),
    ("__init__", "__main__"),
)
ROW = {part: row for row, parts in enumerate(ROWS) for part in parts}
# A match draws itself; drawing imports nothing of it but its type.
EXCEPTIONS = {("match", "viz")}


def test_public_names() -> None:
    assert dhpf.__all__ == ["InputError", "Match", "Matcher", "PhotoFeatures", "load", "sample"]
    for name in dhpf.__all__:
        assert getattr(dhpf, name).__name__ == name
        assert getattr(dhpf, name).__doc__
        assert name in dir(dhpf)
    with pytest.raises(AttributeError, match=r"module 'dhpf' has no attribute 'lode'"):
        _ = dhpf.lode  # type: ignore[attr-defined]


def test_public_methods_are_documented() -> None:
    for kind in (dhpf.Match, dhpf.Matcher, dhpf.PhotoFeatures):
        for name, member in vars(kind).items():
            if not name.startswith("_") and (
                callable(member) or hasattr(member, "fget") or hasattr(member, "func")
            ):
                assert member.__doc__, f"{kind.__name__}.{name}"


def test_sample_names() -> None:
    assert dhpf.sample("lion").name == "lion.jpg"
    with pytest.raises(
        dhpf.InputError, match=r"no sample photo 'tiger': known are cheetah, cheetah_cub, chelsea, lion"
    ):
        dhpf.sample("tiger")


def for_types_only(tree: ast.Module) -> set[ast.AST]:
    """Everything under ``if TYPE_CHECKING``."""
    return {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }


def imported_parts(path: Path) -> set[str]:
    """The parts of the package that a file imports, at its top or in a function."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = path.relative_to(PACKAGE).parts[:-1]
    found = set()
    for node in set(ast.walk(tree)) - for_types_only(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            here = inside[: len(inside) - node.level + 1]
            base = [*here, *(node.module or "").split(".")] if node.module else list(here)
            found |= {base[0]} if base else {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "dhpf":
            found.add(node.module.split(".")[1])
    return found


FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path: Path) -> None:
    part = path.relative_to(PACKAGE).with_suffix("").parts[0]
    assert part in ROW, f"say in this test where {part} belongs"
    for other in imported_parts(path) - {part}:
        assert ROW[other] <= ROW[part] or (part, other) in EXCEPTIONS, f"{part} imports {other}"


def test_every_module_imports() -> None:
    for path in FILES:
        name = ".".join(("dhpf", *path.relative_to(PACKAGE).with_suffix("").parts))
        if not name.endswith("__main__"):
            importlib.import_module(name.removesuffix(".__init__"))
