"""The pages hang together: links lead somewhere, the menu is complete, commands exist, the site builds."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from dhpf.cli import app
from dhpf.methods.dhpf import DHPF
from dhpf.settings import all_keys
from dhpf.train.config import config_of

from .pages import DOCS, PAGES, ROOT, blocks, dhpf_arguments, prose, shell_lines

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROGRAM = typer.main.get_command(app)
TEXTS = [*PAGES, ROOT / "README.md"]
LINK = re.compile(r"\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)$", re.MULTILINE)
INLINE = re.compile(r"`(dhpf [a-z][^`\n]*)`")
FETCHED = re.compile(
    r"""(?:<(?:script|img|iframe|link)\b[^>]*?(?:src|href)=|@import\s+|url\()\s*["']?(https?:)?//"""
)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def anchors(page: Path) -> set[str]:
    """The headings' anchors, as MkDocs makes them."""
    headings = re.findall(r"^#+ (.+)$", prose(page.read_text(encoding="utf-8")), re.MULTILINE)
    words = (re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings)
    return {re.sub(r"[-\s]+", "-", one) for one in words}


@pytest.mark.parametrize("page", TEXTS, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for found in LINK.finditer(prose(page.read_text(encoding="utf-8"))):
        link = found[1] or found[2]
        if re.match(r"[a-z]+:", link):
            continue  # the web
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_file(), link
        assert target.is_relative_to(ROOT), link
        assert not anchor or anchor in anchors(target), link


def test_every_page_is_in_the_menu() -> None:
    menu = re.findall(r": (\w+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(menu) == [path.relative_to(DOCS).as_posix() for path in PAGES]


def commands_of(text: str) -> list[tuple[list[str], bool]]:
    """All uses of ``dhpf`` on a page, as words, and whether each is a whole command, from a block."""
    whole = [line for block in blocks(text) if block.language in ("", "sh") for line in lines_of(block.text)]
    mentioned = [shlex.split(found)[1:] for found in INLINE.findall(prose(text))]
    return [(words, True) for words in whole] + [(words, False) for words in mentioned]


def lines_of(text: str) -> list[list[str]]:
    commands = [
        line for line in text.replace("\\\n", " ").splitlines() if re.match(r"(\$ )?(dhpf|torchrun) ", line)
    ]
    words = [dhpf_arguments(one) for one in shell_lines("\n".join(commands))]
    return [one for one in words if one]


def check_command(words: list[str], whole: bool) -> None:
    """Raise unless the commands and options exist; of a whole command, also unless it can be parsed."""
    command: Any = PROGRAM
    words = list(words)
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        assert words[0] in command.commands, f"no command {words[0]}"
        command = command.commands[words.pop(0)]
    known = {"--help", *(option for parameter in command.params for option in parameter.opts)}
    for word in words:
        assert not word.startswith("--") or word.partition("=")[0] in known, f"no option {word}"
    if whole and "..." not in words and "--help" not in words and not hasattr(command, "commands"):
        command.make_context("dhpf", words)


@pytest.mark.parametrize("page", TEXTS, ids=name_of)
def test_commands_exist(page: Path) -> None:
    for words, whole in commands_of(page.read_text(encoding="utf-8")):
        try:
            check_command(words, whole)
        except (AssertionError, typer.TyperException) as error:
            pytest.fail(f"dhpf {shlex.join(words)}: {error}")


def test_wrong_commands_are_found() -> None:
    page = (
        "```\ndhpf match a b --stile flow\n```\n`dhpf macth`\n```sh\ndhpf predict --root X --out p.npz\n```\n"
    )
    found = commands_of(page)
    assert [words[0] for words, _ in found] == ["match", "predict", "macth"]
    for words, whole in found:
        with pytest.raises((AssertionError, typer.TyperException)):
            check_command(words, whole)


@pytest.mark.parametrize("page", TEXTS, ids=name_of)
def test_extras_exist(page: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for extra in re.findall(r"pip install '(?:dhpf|\.)\[(\w+)\]'", page.read_text(encoding="utf-8")):
        assert extra in project["optional-dependencies"]


def test_the_site_builds_and_fetches_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mkdocstrings_handlers.python", reason="pip install 'dhpf[docs]'")
    pytest.importorskip("material")
    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "1")
    monkeypatch.syspath_prepend(str(ROOT / "src"))
    build(tmp_path)
    pages = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.html")} - {"404.html"}
    pages = {name for name in pages if not name.startswith("repository/")}  # what pages link to
    assert pages == {path.relative_to(DOCS).with_suffix(".html").as_posix() for path in PAGES}
    for path in tmp_path.rglob("*"):
        if path.suffix in (".html", ".css"):
            assert not FETCHED.search(path.read_text(encoding="utf-8")), path.name
    api = (tmp_path / "api.html").read_text(encoding="utf-8")
    assert "Move points of the source photo to the target photo." in api  # a docstring
    assert "on the source's grid, in pixels of the network's input" in api.replace("&#39;", "'")  # a comment
    assert ":meth:" not in api and "&gt;&gt;&gt;" in api and "<blockquote>" not in api
    assert (tmp_path / "repository" / "notebooks" / "tour.ipynb").is_file()  # linked, so it goes along
    settings = re.sub(r"<[^>]+>", " ", (tmp_path / "training.html").read_text(encoding="utf-8"))
    for key in all_keys(config_of(DHPF)):
        assert f" {key} " in settings
    assert re.search(r"loss\.mu\s+0\.5\s+the layer rate", settings)


def build(folder: Path) -> None:
    import warnings

    from mkdocs.commands.build import build as build_site
    from mkdocs.config import load_config

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tools' own
        config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True)
        config.plugins.on_startup(command="build", dirty=False)
        build_site(config)
