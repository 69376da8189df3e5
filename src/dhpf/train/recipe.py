"""Recipes: a TOML file, those that it extends, and changes on the command line -> a configuration."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..errors import InputError, unknown
from .config import Config, make_config

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


RECIPES = Path(__file__).parent.parent / "recipes"


def find_recipe(name: str) -> Path:
    """A recipe's file, or the one of that name in the package: ``resnet50-strong``, ``ablation/mu-0.3``."""
    path = Path(name)
    inside = RECIPES / f"{name}.toml"
    if path.suffix == ".toml" or path.exists() or RECIPES not in inside.resolve().parents:
        return path
    if not inside.exists():
        known = sorted(one.relative_to(RECIPES).with_suffix("").as_posix() for one in RECIPES.rglob("*.toml"))
        raise unknown("recipe", name, known)
    return inside


def read_recipe(path: Path, changes: Iterable[str] = ()) -> Config:
    """Read a recipe and apply ``key=value`` changes, such as ``loss.mu=0.3``."""
    content = _read(path)
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals or not key.strip():
            raise InputError(f"--set {change}: wanted key=value, such as loss.mu=0.3")
        _assign(content, key.strip().split("."), _value(text.strip()), change)
    return make_config(content, str(path))


def _read(path: Path, readers: tuple[Path, ...] = ()) -> dict[str, Any]:
    """What a recipe says, over what the one says that it ``extends``: a path from its own folder."""
    if path.resolve() in readers:
        raise InputError(f"{path} extends itself, by way of {readers[-1]}")
    try:
        content: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"no such recipe: {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not TOML: {error}") from None
    base = content.pop("extends", None)
    if base is not None:
        if not isinstance(base, str):
            raise InputError(f"{path}: extends = {base!r}; wanted the name of a recipe's file")
        content = _over(_read(path.parent / base, (*readers, path.resolve())), content)
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
    except tomllib.TOMLDecodeError:
        return text


def _assign(content: dict[str, Any], keys: list[str], value: Any, change: str) -> None:
    for key in keys[:-1]:
        content = content.setdefault(key, {})
        if not isinstance(content, dict):
            raise InputError(f"--set {change}: {key} is a single setting, not a table of settings")
    content[keys[-1]] = value
