"""Recipes: a TOML file, those that it extends, and changes on the command line -> a configuration."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..errors import InputError, unknown
from ..files import read_text, real_path
from .config import Config, make_config

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


RECIPES = Path(__file__).parent.parent / "recipes"


def read_recipe(recipe: str | Path, changes: Iterable[str] = ()) -> Config:
    """Read a recipe and apply ``key=value`` changes, such as ``loss.mu=0.3``.

    Parameters
    ----------
    recipe
        A TOML file, or the name of one in the package: ``resnet50-strong``, ``ablation/mu-0.3``.
    """
    path = _find(str(recipe), Path())
    content = _read(path)
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals or not key.strip():
            raise InputError(f"--set {change}: wanted key=value, such as loss.mu=0.3")
        _assign(content, key.strip().split("."), _value(text.strip()), change)
    return make_config(content, str(path))


def _find(recipe: str, folder: Path) -> Path:
    """The file of a recipe in the package, or one from that folder."""
    known = {one.relative_to(RECIPES).with_suffix("").as_posix(): one for one in RECIPES.rglob("*.toml")}
    if recipe in known:
        return known[recipe]
    path = folder / recipe
    if path.suffix != ".toml" and not path.is_file():
        raise unknown("recipe", recipe, sorted(known))
    return path


def _read(path: Path, readers: tuple[Path, ...] = ()) -> dict[str, Any]:
    """What a recipe says, over what the one says that it ``extends``: a file from its folder, or a name."""
    if real_path(path) in readers:
        raise InputError(f"{path} extends itself, by way of {readers[-1]}")
    try:
        content: dict[str, Any] = tomllib.loads(read_text(path, "recipe"))
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not TOML: {error}") from None
    base = content.pop("extends", None)
    if base is not None:
        if not isinstance(base, str):
            raise InputError(f"{path}: extends = {base!r}; wanted the name of a recipe or of its file")
        content = _over(_read(_find(base, path.parent), (*readers, real_path(path))), content)
    make_config(content, str(path))  # an error is of the file that has it
    return content


def _over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of both; where both have one, that of ``above``."""
    merged = {**below, **above}
    for key in below.keys() & above.keys():
        if isinstance(below[key], Mapping) and isinstance(above[key], Mapping):
            merged[key] = _over(below[key], above[key])
    return merged


def _value(text: str) -> Any:
    """As TOML writes it; a bare word is text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def _assign(content: dict[str, Any], keys: list[str], value: Any, change: str) -> None:
    for key in keys[:-1]:
        content = content.setdefault(key, {})
        if not isinstance(content, dict):
            raise InputError(f"--set {change}: {key} is a single setting, not a table of settings")
    content[keys[-1]] = value
