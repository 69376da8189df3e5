"""The review in a real browser, served by a real ``dhpf web`` that is killed on the way."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from benchmarks.web_process import browser, missing_for_browser, running_server

from dhpf.annotate.annotations import Annotations
from tests.web.review_files import write_review
from tests.web.test_browser import Visit

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

LACKING = missing_for_browser()
pytestmark = pytest.mark.skipif(LACKING is not None and "CI" not in os.environ, reason=str(LACKING))

READY = "document.querySelectorAll('#overlay .point[data-side=target]').length > 0"


class Reviewer(Visit):
    """The opened page of a review."""

    def ready(self) -> str:
        return READY

    def press(self, *keys: str) -> None:
        from selenium.webdriver import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    def wait_for_text(self, selector: str, text: str) -> None:
        self.wait(f"document.querySelector('{selector}').textContent.includes('{text}')")

    def wait_for_photo(self, name: str) -> None:
        self.wait_for_text("#target .name", name)
        self.wait(READY)

    def drag(self, index: int, right: int, down: int) -> None:
        """Drag a point of the photo by pixels of the screen."""
        from selenium.webdriver import ActionChains

        point = self.find(f"#overlay .point[data-side=target][data-index='{index}'] circle")
        actions = ActionChains(self.driver).click_and_hold(point).move_by_offset(right - 5, down - 5)
        actions.move_by_offset(5, 5).release().perform()


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return write_review(tmp_path)


@pytest.fixture
def options(files: tuple[Path, Path]) -> list[str]:
    small = ["--model", "hpf-resnet50", "--size", "64"]
    return ["--annotations", str(files[0]), "--images", str(files[1]), *small]


@pytest.fixture(scope="module")
def desktop() -> Iterator[Chrome]:
    with browser() as driver:
        yield driver


def on_disc(files: tuple[Path, Path]) -> dict[str, list[list[float]]]:
    """What is written of each photo."""
    read = Annotations.read(files[0].with_name("annotations.reviewed.json"))
    return {image.file_name: image.objects[0].keypoints.tolist() for image in read}


def test_a_review_by_mouse_and_keys_of_a_server_that_is_killed(
    desktop: Chrome, files: tuple[Path, Path], options: list[str]
) -> None:
    from selenium.webdriver import Keys

    with running_server(*options) as server:
        visit = Reviewer(desktop, server.address)
        visit.wait_for_photo("b.png")  # the least sure
        assert visit.find("#count").text == "0 of 3 reviewed"
        scale = visit.script("document.querySelector('#target img').getBoundingClientRect().width") / 60
        visit.drag(0, 40, 30)
        visit.wait_for_text("#message", "left eye moved")
        assert on_disc(files)["b.png"][0] == pytest.approx([10 + 40 / scale, 12 + 30 / scale, 2], abs=0.1)
        visit.press("3", "x")
        visit.wait_for_text("#message", "nose is absent")
        assert on_disc(files)["b.png"][2] == [0, 0, 0]
        visit.press("2", Keys.ARROW_RIGHT)
        visit.wait_for_text("#message", "right eye moved")
        assert on_disc(files)["b.png"][1] == pytest.approx([30.6, 11, 2])
        visit.press("z")
        visit.wait_for_text("#message", "Taken back")
        assert on_disc(files)["b.png"][1] == [30, 11, 2]
        visit.press(Keys.ENTER)
        visit.wait_for_photo("c.png")
        visit.press("x")
        visit.wait_for_text("#message", "left eye is absent")
        before = on_disc(files)
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.communicate()
        assert on_disc(files) == before

    with running_server(*options) as server:
        visit = Reviewer(desktop, server.address)
        visit.wait_for_photo("c.png")  # b is done
        assert (visit.find("#count").text, visit.find("#status").text) == (
            "1 of 3 reviewed",
            "changed, not confirmed",
        )
        assert on_disc(files) == before
        assert visit.find("#source .name").text == "b.png"  # what was confirmed is the reference
        visit.press("z")
        visit.wait_for_text("#message", "Taken back")
        assert on_disc(files)["c.png"][0] == [10, 12, 2]
        visit.press("a")
        visit.wait_for_text("#message", "Predicted again from 1 reviewed")
        anew = on_disc(files)
        assert anew["b.png"] == before["b.png"] and anew["a.png"][0] != [10, 12, 2]
        assert anew["a.png"][2] == [0, 0, 0]  # the reference does not show it
        visit.press("n")
        visit.wait("!document.querySelector('#target .name').textContent.includes('c.png')")
        visit.find("#format").send_keys("deeplabcut")
        visit.find("#export").click()
        visit.wait_for_text("#message", "Saved as annotations.reviewed.csv")
        visit.no_complaints()


def test_a_phone(files: tuple[Path, Path], options: list[str]) -> None:
    with running_server(*options) as server, browser(390, 844, dark=True) as phone:
        visit = Reviewer(phone, server.address)
        visit.wait_for_photo("b.png")
        assert visit.script("[document.documentElement.scrollWidth, innerWidth]") == [390, 390]
        visit.drag(1, 30, 20)
        visit.wait_for_text("#message", "right eye moved")
        visit.find("#confirm").click()
        visit.wait_for_photo("c.png")
        visit.wait("document.querySelector('#source img').naturalWidth")
        tops = visit.script(
            "['source', 'target'].map(s => document.getElementById(s).getBoundingClientRect().top)"
        )
        assert tops[1] > tops[0] + 60  # one column
        assert visit.script("[document.documentElement.scrollWidth, innerWidth]") == [390, 390]
        names = visit.script(
            "[...document.querySelectorAll('button, input, select, [tabindex]')]"
            ".filter(e => !(e.labels?.[0] ?? e).innerText?.trim() && !e.getAttribute('aria-label'))"
            ".map(e => e.outerHTML)"
        )
        assert names == []
        visit.no_complaints()
