"""The page in a real browser, served by a real ``dhpf web``."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from benchmarks.web_process import browser, missing_for_browser, running_server

import dhpf

if TYPE_CHECKING:
    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement

PATIENCE = 60.0

LACKING = missing_for_browser()
pytestmark = pytest.mark.skipif(LACKING is not None and "CI" not in os.environ, reason=str(LACKING))


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running_server("--model", "hpf-resnet50") as server:
        yield server.address


@pytest.fixture(scope="module")
def match(matcher: dhpf.Matcher) -> dhpf.Match:
    return matcher.match(dhpf.sample("cheetah"), dhpf.sample("cheetah_cub"))


@pytest.fixture(scope="module")
def desktop() -> Iterator[Chrome]:
    with browser() as driver:
        yield driver


class Visit:
    """The opened page."""

    def __init__(self, driver: Chrome, address: str) -> None:
        driver.get(address)
        self.driver = driver
        self.wait("document.querySelectorAll('#samples button').length === 3")

    def script(self, code: str, *given: object) -> Any:
        return self.driver.execute_script(f"return {code}", *given)

    def wait(self, condition: str) -> None:
        """Wait for a condition in JavaScript; say what the page says if it never comes."""
        from selenium.common.exceptions import TimeoutException
        from selenium.webdriver.support.ui import WebDriverWait

        try:
            WebDriverWait(self.driver, PATIENCE, poll_frequency=0.05).until(lambda _: self.script(condition))
        except TimeoutException:
            pytest.fail(f"waited for {condition}; the page says: {self.message()}")

    def find(self, selector: str) -> WebElement:
        return self.driver.find_element("css selector", selector)

    def message(self) -> str:
        return self.find("#message").text

    def upload(self, source: Path, target: Path) -> None:
        self.find("#source input[type=file]").send_keys(str(source))
        self.wait("document.querySelector('#message').textContent.startsWith('Now choose the target')")
        self.find("#target input[type=file]").send_keys(str(target))
        self.wait("document.querySelector('#message').textContent.startsWith('Matched')")
        self.wait(
            "[...document.querySelectorAll('#stage .photo > img:first-of-type')].every(i => i.naturalWidth)"
        )

    def shown(self, side: str) -> np.ndarray:
        """Where the points are on the screen, (K, 2), as shares of the photo that is shown."""
        centres = self.script(
            "[...document.querySelectorAll(`#overlay .point[data-side=${arguments[0]}]`)]"
            ".sort((a, b) => a.dataset.index - b.dataset.index).map((point) => {"
            "  const circle = point.querySelector('circle').getBoundingClientRect();"
            "  const photo = document.querySelector(`#${arguments[0]} .photo img`).getBoundingClientRect();"
            "  return [(circle.x + circle.width / 2 - photo.x) / photo.width,"
            "          (circle.y + circle.height / 2 - photo.y) / photo.height]; })",
            side,
        )
        return np.array(centres, float).reshape(-1, 2)

    def wait_for_points(self, count: int) -> None:
        self.wait(f"document.querySelectorAll('#overlay .point[data-side=target]').length === {count}")

    def no_complaints(self) -> None:
        """Nothing was blocked, missing or thrown."""
        assert self.driver.get_log("browser") == []


def click(visit: Visit, x: float, y: float) -> None:
    """Click a share of the source photo, from its top left."""
    from selenium.webdriver import ActionChains

    photo = visit.find("#source .photo")
    size = photo.size
    right, down = round((x - 0.5) * size["width"]), round((y - 0.5) * size["height"])
    ActionChains(visit.driver).move_to_element_with_offset(photo, right, down).click().perform()


def check_against(match: dhpf.Match, visit: Visit, share: float = 0.006) -> np.ndarray:
    """What is shown on the target is the transfer of what is shown on the source."""
    points = visit.shown("source") * match.source.size
    np.testing.assert_allclose(
        visit.shown("target"), match.transfer(points) / match.target.size, rtol=0, atol=share
    )
    return points


def test_upload_two_photos_and_click(desktop: Chrome, address: str, match: dhpf.Match) -> None:
    visit = Visit(desktop, address)
    visit.upload(dhpf.sample("cheetah"), dhpf.sample("cheetah_cub"))
    for count, place in enumerate([(0.344, 0.36), (0.66, 0.36), (0.5, 0.6)], start=1):  # eyes and nose
        click(visit, *place)
        visit.wait_for_points(count)
    points = check_against(match, visit)
    np.testing.assert_allclose(points / 256, [(0.344, 0.36), (0.66, 0.36), (0.5, 0.6)], atol=0.004)
    rows = [row.text.replace("\n", " ").split() for row in desktop.find_elements("css selector", "tbody tr")]
    confidences = [float(row[5]) for row in rows]
    np.testing.assert_allclose(confidences, match.confidence_at(points), atol=0.02)
    assert "2, 7, 11, 12, 15" in visit.find("#layers p").text
    times = visit.script(
        "performance.getEntriesByType('resource').filter(e => e.name.endsWith('/points'))"
        ".map(e => e.serverTiming[0].duration)"
    )
    assert len(times) == 4 and np.median(times) < 50
    visit.find("#undo").click()
    visit.wait_for_points(2)
    visit.no_complaints()


def test_views_models_and_downloads(desktop: Chrome, address: str, match: dhpf.Match, tmp_path: Path) -> None:
    desktop.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    visit = Visit(desktop, address)
    visit.find("#samples button").click()
    visit.wait("document.querySelector('#message').textContent.startsWith('Matched')")
    visit.find("#suggest").click()
    visit.wait_for_points(12)
    check_against(match, visit)
    for view, ready in (
        ("lines", "document.querySelectorAll('#overlay line').length === 36"),
        ("warp", "document.querySelector('#warped').naturalWidth === 465"),
        ("flow", "document.querySelector('#whole img').naturalWidth > 900"),
        ("heat", "document.querySelector('#heat').width === 61"),
    ):
        visit.find(f"#views input[value={view}] + span").click()
        visit.wait(ready)
        visit.find("#png").click()
        visit.wait("!document.querySelector('.working')")
    brightest = visit.script(
        "(() => { const c = document.querySelector('#heat');"
        " const d = c.getContext('2d').getImageData(0, 0, 61, 61).data;"
        " return d.reduce((best, v, i) => i % 4 === 3 && v > d[best] ? i : best, 3); })()"
    )
    row, column = divmod(brightest // 4, 61)
    scores = match.scores(match.keypoints()[0])
    assert scores[row, column] > 0.98 * scores.max()
    split = visit.find("#slider input")
    visit.find("#views input[value=warp] + span").click()
    split.send_keys("\ue012" * 20)  # arrow left
    clip = visit.script("getComputedStyle(document.querySelector('#warped')).clipPath")
    assert clip == "inset(0px calc(70%) 0px 0px)" or "70%" in clip
    visit.find("#json").click()
    names = {"dhpf-lines.png", "dhpf-warp.png", "dhpf-flow.png", "dhpf-heat.png", "dhpf-match.json"}
    visit.wait("new Promise((resolve) => setTimeout(resolve, 700, true))")
    assert {path.name for path in tmp_path.iterdir()} == names
    saved = json.loads((tmp_path / "dhpf-match.json").read_text())
    assert len(saved["source_points"]) == 12
    for key, value in match.to_dict(saved["source_points"]).items():
        if key in ("target_points", "confidence"):  # another process may round otherwise
            np.testing.assert_allclose(saved[key], value, atol=0.002)
        else:
            assert saved[key] == value
    visit.script("document.querySelector('#model').value = 'hpf-resnet50-searched'")
    visit.script("document.querySelector('#model').dispatchEvent(new Event('change'))")
    visit.wait("document.querySelector('#layers p').textContent.includes('0, 9, 10, 11, 12')")
    visit.no_complaints()


def test_keyboard_alone(desktop: Chrome, address: str, match: dhpf.Match) -> None:
    from selenium.webdriver import ActionChains, Keys

    visit = Visit(desktop, address)

    def press(*keys: str) -> None:
        ActionChains(desktop).send_keys(*keys).perform()

    def tab_to(selector: str) -> None:
        for _ in range(25):
            press(Keys.TAB)
            if visit.script("document.activeElement.matches(arguments[0])", selector):
                outline = visit.script(
                    "getComputedStyle(document.activeElement.closest('.button') ?? "
                    "document.activeElement).outlineStyle"
                )
                assert outline == "solid", f"the focus on {selector} cannot be seen"
                return
        pytest.fail(f"the Tab key does not reach {selector}")

    tab_to("#samples button")
    press(Keys.ENTER)
    visit.wait("document.querySelector('#message').textContent.startsWith('Matched')")
    tab_to("#source input[type=file]")
    tab_to("#source .photo")
    press(*[Keys.ARROW_LEFT] * 8, *[Keys.ARROW_UP] * 7, Keys.ENTER)
    visit.wait_for_points(1)
    points = check_against(match, visit)
    np.testing.assert_allclose(points / 256, [(0.5 - 8 * 0.02, 0.5 - 7 * 0.02)], atol=0.003)
    assert visit.message().startswith("Point 1: 87.0, 92.2 lies at")
    press(*[Keys.ARROW_RIGHT] * 3, Keys.ENTER)
    visit.wait_for_points(2)
    press(Keys.DELETE)
    visit.wait_for_points(1)
    for selector in ("#suggest", "#undo", "#clear", "#png", "#json", "#forget"):
        tab_to(selector)
    names = visit.script(
        "[...document.querySelectorAll('button, input, select, [tabindex]')]"
        ".filter(e => !(e.labels?.[0] ?? e).innerText?.trim() && !e.getAttribute('aria-label'))"
        ".map(e => e.outerHTML)"
    )
    assert names == []  # every control says what it is
    visit.no_complaints()


def test_a_phone(address: str, match: dhpf.Match) -> None:
    with browser(390, 844, dark=True) as phone:
        visit = Visit(phone, address)
        widths = "[document.documentElement.scrollWidth, innerWidth]"
        assert visit.script(widths) == [390, 390]
        visit.upload(dhpf.sample("cheetah"), dhpf.sample("cheetah_cub"))
        click(visit, 0.344, 0.36)
        visit.wait_for_points(1)
        check_against(match, visit)
        for view in ("warp", "flow", "heat", "lines"):
            visit.find(f"#views input[value={view}] + span").click()
            visit.wait("!document.querySelector('.working')")
            assert visit.script(widths) == [390, 390], view
        tops = visit.script(
            "['source', 'target'].map(s => document.getElementById(s).getBoundingClientRect().top)"
        )
        assert tops[1] > tops[0] + 200  # one column
        assert visit.script("getComputedStyle(document.body).backgroundColor") == "rgb(23, 23, 22)"
        visit.no_complaints()


def test_two_photos_dropped_at_once(desktop: Chrome, address: str, match: dhpf.Match) -> None:
    visit = Visit(desktop, address)
    files = [base64.b64encode(dhpf.sample(name).read_bytes()).decode() for name in ("cheetah", "cheetah_cub")]
    desktop.execute_script(
        "const dropped = new DataTransfer();"
        "for (const [i, text] of arguments[0].entries()) {"
        "  const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));"
        "  dropped.items.add(new File([bytes], `${i}.jpg`)); }"
        "document.querySelector('#target .photo').dispatchEvent("
        "  new DragEvent('drop', { dataTransfer: dropped, bubbles: true, cancelable: true }));",
        files,
    )
    visit.wait("document.querySelector('#message').textContent.startsWith('Matched')")
    assert visit.find("#source .name").text == "0.jpg, 256 \u00d7 256"
    click(visit, 0.344, 0.36)
    visit.wait_for_points(1)
    check_against(match, visit)


def test_a_bad_file_is_a_sentence(desktop: Chrome, address: str, tmp_path: Path) -> None:
    bad = tmp_path / "words.jpg"
    bad.write_text("these are words")
    visit = Visit(desktop, address)
    visit.find("#source input[type=file]").send_keys(str(bad))
    visit.wait("document.querySelector('#message.bad')")
    assert visit.message().startswith("words.jpg is not an image that can be read")
