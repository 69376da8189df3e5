"""``dhpf web``: what it says before it serves."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dhpf.methods.nearest import Nearest
from dhpf.web.models import Models
from dhpf.web.review import Review
from dhpf.web.server import hosts_for, listen
from tests.conftest import Ran
from tests.test_cold_start import imported
from tests.test_own_backbone_and_method import TwoConvolutions
from tests.web.review_files import write_review

Command = Callable[..., Ran]


def test_errors_come_before_anything_is_served(command: Command, tmp_path: Path) -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        ran = command("web", "--port", port)
    assert ran == Ran(
        2,
        "",
        f"dhpf: error: 127.0.0.1, port {port} is in use; give another with --port, or 0 for any free one\n",
    )
    ran = command("web", "--port", 0, "--model", "hpf-resnet5")
    assert (ran.code, ran.err.count("\n")) == (2, 1) and "hpf-resnet50" in ran.err
    assert "no such host: nowhere.invalid" in command("web", "--host", "nowhere.invalid").err
    assert "cannot listen on 192.0.2.1" in command("web", "--host", "192.0.2.1", "--port", 0).err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--annotations", "{file}"], "a review needs both --annotations FILE and --images DIR"),
        (["--images", "{photos}"], "a review needs both --annotations FILE and --images DIR"),
        (["--inside-boxes"], "are for a review; give --annotations FILE"),
        (
            ["--annotations", "{file}", "--images", "{photos}", "--points", "1,2"],
            "give the photo as --reference",
        ),
        (["--annotations", "{file}", "--images", "{file}"], "annotations.json is no folder"),
        (["--annotations", "none.json", "--images", "{photos}"], "none.json"),
        (
            ["--annotations", "{photos}/a.png", "--images", "{photos}"],
            "a.png is no annotation file by its ending",
        ),
        (["--annotations", "{file}", "--images", "{folder}"], "its photo a.png is not in"),
        (["--annotations", "{file}", "--images", "{photos}", "--references", "{photos}/a.png"], "a.png is"),
    ],
)
def test_reviews_that_cannot_begin(command: Command, tmp_path: Path, options: list[str], said: str) -> None:
    file, photos = write_review(tmp_path)
    given = [option.format(file=file, photos=photos, folder=tmp_path) for option in options]
    ran = command("web", "--port", 0, *given)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1) and said in ran.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["annotations.json", "photos"]


def test_a_review_does_not_replace_its_references(command: Command, tmp_path: Path) -> None:
    file, photos = write_review(tmp_path)
    Review(file, photos).close()
    reviewed = file.with_name("annotations.reviewed.json")
    options = ["--annotations", file, "--images", photos, "--references", reviewed]
    ran = command("web", "--port", 0, *options)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert f"{reviewed} is an input" in ran.err


def test_convert_replaces_no_input(command: Command, tmp_path: Path) -> None:
    file, _ = write_review(tmp_path)
    before = file.read_bytes()
    for options in (["--out", file], ["--out", tmp_path / "x.xml", "--format", "cvta"]):
        ran = command("convert", file, *options)
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert file.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["annotations.json", "photos"]


def test_without_the_extra_it_names_the_cure(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "dhpf.web.connections", raising=False)  # another test may have loaded it
    assert command("web") == Ran(2, "", "dhpf: error: the page needs uvicorn: pip install 'dhpf[web]'\n")


@pytest.mark.parametrize(
    ("host", "warned"), [("127.0.0.1", False), ("::1", False), ("localhost", False), ("0.0.0.0", True)]
)
def test_others_are_let_in_only_with_a_warning(
    command: Command, monkeypatch: pytest.MonkeyPatch, host: str, warned: bool
) -> None:
    def serve(*given: Any, ready: Callable[[str], None], **more: Any) -> None:
        ready("http://there")

    monkeypatch.setattr("dhpf.cli.web.serve", serve)
    ran = command("web", "--host", host)
    assert (ran.code, ran.out) == (0, "open http://there (Ctrl+C stops it)\nstopped\n")
    assert ("everyone who can reach this machine can use the page" in ran.err) == warned


def test_a_size_that_was_rounded_is_noted(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each model when it is loaded: here the first, before anything is served."""

    class Stopped:
        def run(self, sockets: object) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr("dhpf.matcher.load_method", lambda *_: Nearest(TwoConvolutions()))
    monkeypatch.setattr("dhpf.web.connections.build_server", lambda app: Stopped())
    ran = command("web", "--port", 0, "--size", "61x64")
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "stopped")
    assert ran.err == "dhpf: note: input of 64x64, as this model takes multiples of 8\n"


def test_names_by_which_the_page_may_be_called() -> None:
    alone, shared = hosts_for("127.0.0.1", ["Photos.example"]), hosts_for("0.0.0.0", [])
    assert alone.allow("photos.example:80") and alone.allow("localhost") and not alone.allow("10.0.0.1")
    assert shared.allow("10.0.0.1:7860") and shared.allow("localhost") and not shared.allow("photos.example")


def test_help_does_not_wait_for_libraries() -> None:
    modules = imported("web", "--help")
    assert "dhpf.cli.web" in modules
    assert not modules & {"torch", "starlette", "uvicorn", "PIL", "asyncio"}


def test_models_on_offer() -> None:
    models = Models()
    assert {"hpf-resnet50", "hpf-resnet50-searched", "resnet50-strong-plus"} <= set(models.names)
    assert "hpf-resnet101" not in models.names  # its backbone would have to be downloaded
    named = Models(["heads/trained.safetensors", "hpf-resnet50-searched"])
    assert named.names[:2] == ("heads/trained.safetensors", "hpf-resnet50-searched")
    assert sorted(named.names[1:]) == sorted(models.names)
    assert [model["label"] for model in named.described() if model["default"]] == ["trained.safetensors"]
    assert models.matcher("hpf-resnet50") is models.matcher("hpf-resnet50")
