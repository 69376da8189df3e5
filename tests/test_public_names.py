"""The public names, and the one direction of imports."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

import dhpf

PACKAGE = Path(dhpf.__file__).parent

# The layout of the package, from what knows least to what knows most: each part only imports parts of its own
# or an earlier row.
ROWS = (
    ("errors", "grid", "__version__"),
    ("files", "feature_cache", "journal", "memory", "processes", "progress", "samples", "settings"),
    ("points", "images", "pair_list"),
    ("backbones", "model", "fast"),
    ("losses",),
    ("methods",),
    ("heads",),
    ("zoo",),
    ("match",),
    ("matcher",),
    ("outputs",),
    ("data",),
    ("evaluate",),
    ("train",),
    ("analysis", "viz", "annotate"),
    ("many",),
    ("cli", "web"),
    ("__init__", "__main__"),
)
ROW = {part: row for row, parts in enumerate(ROWS) for part in parts}
# A match draws itself; drawing imports nothing of it but its type.
EXCEPTIONS = {("match", "viz")}


def test_public_names() -> None:
    names = ["Annotations", "ImageFeatures", "InputError", "Match", "Matcher", "annotate", "load", "sample"]
    assert dhpf.__all__ == names
    for name in names:
        assert callable(getattr(dhpf, name))
        assert getattr(dhpf, name).__name__.rpartition(".")[2] == name  # annotate is a package, too
        assert getattr(dhpf, name).__doc__
        assert name in dir(dhpf)
    with pytest.raises(AttributeError, match=r"module 'dhpf' has no attribute 'lode'"):
        _ = dhpf.lode  # type: ignore[attr-defined]


def test_public_methods_are_documented() -> None:
    for kind in (dhpf.Annotations, dhpf.ImageFeatures, dhpf.Match, dhpf.Matcher):
        for name, member in vars(kind).items():
            if not name.startswith("_") and (
                callable(member) or hasattr(member, "fget") or hasattr(member, "func")
            ):
                assert member.__doc__, f"{kind.__name__}.{name}"


def test_sample_names() -> None:
    assert dhpf.sample("lion").name == "lion.jpg"
    known = "bison, cheetah, cheetah_cub, chelsea, cow, kingfisher, lion, macaw"
    with pytest.raises(dhpf.InputError, match=f"no sample photo 'tiger': known are {known}"):
        dhpf.sample("tiger")


def for_types_only(tree: ast.Module) -> set[ast.AST]:
    """Everything under ``if TYPE_CHECKING``."""
    return {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }


def imported_parts(source: str, inside: tuple[str, ...]) -> set[str]:
    """The parts of the package that a file in that folder imports, at its top or in a function."""
    tree = ast.parse(source)
    found = set()
    for node in set(ast.walk(tree)) - for_types_only(tree):
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ["dhpf", *inside][: len(inside) + 2 - node.level] if node.level else []
            module = [*base, *(node.module.split(".") if node.module else [])]
            names = [[*module, alias.name] for alias in node.names]
        else:
            continue
        found |= {name[1] for name in names if name[0] == "dhpf" and len(name) > 1}
    return found


def test_imports_are_found_in_every_form() -> None:
    forms = {
        "from ..matcher import load": {"matcher"},
        "from .. import zoo, heads": {"zoo", "heads"},
        "from . import match": {"cli"},
        "from .match import parse_size": {"cli"},
        "import dhpf.model.hough": {"model"},
        "from dhpf import zoo": {"zoo"},
        "from dhpf.train.step import Losses": {"train"},
        "def late():\n    from ..web.server import serve": {"web"},
        "if TYPE_CHECKING:\n    from ..matcher import Matcher": set(),
        "import torch.nn, dhpf": set(),
        "from torch import zoo": set(),
    }
    for source, parts in forms.items():
        assert imported_parts(source, ("cli",)) == parts, source
    assert imported_parts("from .errors import InputError", ()) == {"errors"}


FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path: Path) -> None:
    inside = path.relative_to(PACKAGE).with_suffix("").parts
    part = inside[0]
    assert part in ROW, f"say in this test where {part} belongs"
    for other in imported_parts(path.read_text(encoding="utf-8"), inside[:-1]) - {part}:
        assert ROW[other] <= ROW[part] or (part, other) in EXCEPTIONS, f"{part} imports {other}"


def test_every_module_imports() -> None:
    for path in FILES:
        name = ".".join(("dhpf", *path.relative_to(PACKAGE).with_suffix("").parts))
        if not name.endswith("__main__"):
            importlib.import_module(name.removesuffix(".__init__"))
