"""The page in a real browser, served by a real ``dhpf web``."""

from __future__ import annotations

import base64
import io
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from benchmarks.web_process import browser, missing_for_browser, running_server
from PIL import Image

import dhpf
from dhpf.viz.canvas import GAP, drawing_size
from dhpf.viz.colours import SCALE, colours

if TYPE_CHECKING:
    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement

PATIENCE = 180.0  # a busy machine is not a wrong answer

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
        driver.get("about:blank")  # the visitor before may still have asked something
        driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
        driver.get_log("browser")
        driver.get(address)
        self.driver = driver
        self.wait(self.ready())

    def ready(self) -> str:
        """What shows that the page can be used."""
        return "document.querySelectorAll('#samples button').length === 5"

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
        self.wait_for_message("Now choose the target")
        self.find("#target input[type=file]").send_keys(str(target))
        self.wait_for_message("Matched")
        self.wait_for_photos()

    def sample(self) -> None:
        self.find("#samples button").click()
        self.wait_for_message("Matched")
        self.wait_for_photos()

    def wait_for_message(self, start: str) -> None:
        self.wait(f"document.querySelector('#message').textContent.startsWith('{start}')")

    def wait_for_photos(self) -> None:
        self.wait(
            "[...document.querySelectorAll('#stage .photo > img:first-of-type')].every(i => i.naturalWidth)"
        )

    def style_source(self, **style: object) -> None:
        self.script("Object.assign(document.querySelector('#source .photo').style, arguments[0])", style)

    def table(self) -> list[list[float]]:
        """What is written about the points: number, source x and y, target x and y, confidence."""
        rows = self.driver.find_elements("css selector", "tbody tr")
        return [[float(word) for word in re.findall(r"[-\d.]+", row.text)] for row in rows]

    def shown(self, side: str) -> np.ndarray:
        """Where the points are on the screen, (K, 2), as fractions of the photo that is shown."""
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

    def fills(self, side: str) -> list[str]:
        """The colours of the points, in their order."""
        fills: list[str] = self.script(
            "[...document.querySelectorAll(`#overlay .point[data-side=${arguments[0]}]`)]"
            ".sort((a, b) => a.dataset.index - b.dataset.index)"
            ".map((point) => point.querySelector('circle[fill]').getAttribute('fill'))",
            side,
        )
        return fills

    def wait_for_points(self, count: int) -> None:
        self.wait(f"document.querySelectorAll('#overlay .point[data-side=target]').length === {count}")

    def no_complaints(self) -> None:
        """Nothing was blocked, missing or thrown."""
        assert self.driver.get_log("browser") == []


def click(visit: Visit, x: float, y: float) -> None:
    """Click at a fraction of the source photo, from its top left."""
    from selenium.webdriver import ActionChains

    photo = visit.find("#source .photo")
    size = photo.size
    right, down = round((x - 0.5) * size["width"]), round((y - 0.5) * size["height"])
    ActionChains(visit.driver).move_to_element_with_offset(photo, right, down).click().perform()


def click_screen(visit: Visit, x: int, y: int) -> None:
    """Click at a pixel of what is seen of the page."""
    from selenium.webdriver import ActionChains

    actions = ActionChains(visit.driver)
    actions.w3c_actions.pointer_action.move_to_location(x, y)
    actions.click().perform()


def source_box(visit: Visit) -> tuple[float, float, float, float]:
    """Left, top, width and height of the source photo on the screen."""
    box = "document.querySelector('#source img').getBoundingClientRect()"
    left, top, width, height = visit.script(f"(({{ x, y, width, height }}) => [x, y, width, height])({box})")
    return left, top, width, height


def check_against(match: dhpf.Match, visit: Visit, fraction: float = 0.006) -> np.ndarray:
    """What is shown on the target is the transfer of what is shown on the source."""
    points = visit.shown("source") * match.source.size - 0.5
    found = (match.transfer(points) + 0.5) / match.target.size
    np.testing.assert_allclose(visit.shown("target"), found, rtol=0, atol=fraction)
    return points


def test_upload_two_photos_and_click(desktop: Chrome, address: str, match: dhpf.Match) -> None:
    visit = Visit(desktop, address)
    visit.upload(dhpf.sample("cheetah"), dhpf.sample("cheetah_cub"))
    for count, place in enumerate([(0.344, 0.36), (0.66, 0.36), (0.5, 0.6)], start=1):  # eyes and nose
        click(visit, *place)
        visit.wait_for_points(count)
    points = check_against(match, visit)
    np.testing.assert_allclose(points / 256, [(0.344, 0.36), (0.66, 0.36), (0.5, 0.6)], atol=0.006)
    np.testing.assert_allclose([row[5] for row in visit.table()], match.confidence_at(points), atol=0.02)
    fills = [[int(part) for part in re.findall(r"\d+", fill)] for fill in visit.fills("target")]
    np.testing.assert_allclose(fills, colours(match.confidence_at(points)), atol=6)  # of a scale from 0 to 1
    assert "2, 7, 11, 12, 15" in visit.find("#layers p").text
    times = visit.script(
        "performance.getEntriesByType('resource').filter(e => e.name.endsWith('/points'))"
        ".map(e => e.serverTiming[0].duration)"
    )
    assert len(times) == 4 and min(times) < 50
    visit.find("#undo").click()
    visit.wait_for_points(2)
    visit.no_complaints()


def test_views_models_and_downloads(desktop: Chrome, address: str, match: dhpf.Match, tmp_path: Path) -> None:
    desktop.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    visit = Visit(desktop, address)
    visit.sample()
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
    left, top, width, height = visit.script(
        "(() => { const [heat, photo] = ['#heat', '#target .photo img']"
        ".map(each => document.querySelector(each).getBoundingClientRect());"
        " return [(heat.x - photo.x) / photo.width, (heat.y - photo.y) / photo.height,"
        " heat.width / photo.width, heat.height / photo.height]; })()"
    )
    # The first cell, of 4 x 4 pixels of the network's input of 240 x 240, lies around the first pixel.
    np.testing.assert_allclose([left, top, width, height], np.array([-1.5, -1.5, 244, 244]) / 240, atol=1e-4)
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


def test_heat_maps_are_offered_for_models_that_keep_scores(desktop: Chrome, address: str) -> None:
    visit = Visit(desktop, address)
    visit.sample()
    assert visit.message().startswith("Matched at 240 \u00d7 240 pixels.")
    click(visit, 0.344, 0.36)
    visit.wait_for_points(1)
    visit.find("#views input[value=heat] + span").click()
    visit.wait("document.querySelector('#heat').width === 61")
    offered = "document.querySelector('#views input[value=heat]').checkVisibility()"
    for model, keeps in (("cnngeo-resnet50", False), ("nearest-resnet50", True), ("scnet-resnet50", False)):
        visit.script("document.querySelector('#model').value = arguments[0]", model)
        visit.script("document.querySelector('#model').dispatchEvent(new Event('change'))")
        visit.wait(f"{offered} === {str(keeps).lower()}")
        assert visit.script("document.querySelector('input[name=view]:checked').value") == "lines"
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
    visit.wait_for_message("Matched")
    tab_to("#source input[type=file]")
    tab_to("#source .photo")
    press(*[Keys.ARROW_LEFT] * 8, *[Keys.ARROW_UP] * 7, Keys.ENTER)
    visit.wait_for_points(1)
    points = check_against(match, visit)
    np.testing.assert_allclose(points, [(127.5 - 8 * 5.12, 127.5 - 7 * 5.12)], atol=0.5)
    assert visit.message().startswith("Point 1: 86.5, 91.7 lies at")
    press(*[Keys.ARROW_RIGHT] * 3, Keys.ENTER)
    visit.wait_for_points(2)
    press(Keys.DELETE)
    visit.wait_for_points(1)
    for selector in ("#swap", "#suggest", "#undo", "#clear", "#png", "#json", "#forget"):
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


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_click_that_slips_is_no_drag_of_the_photo(desktop: Chrome, address: str, side: str) -> None:
    """Browsers drag images, and hand them to the page as files: an upload, with which all points are lost."""
    from selenium.webdriver import ActionChains

    visit = Visit(desktop, address)
    visit.sample()
    click(visit, 0.3, 0.3)
    visit.wait_for_points(1)
    names = [visit.find(f"#{each} .name").text for each in ("source", "target")]
    slip = ActionChains(desktop).move_to_element_with_offset(visit.find(f"#{side} .photo"), 0, 60)
    slip.click_and_hold().move_by_offset(3, 2).move_by_offset(3, 2).move_by_offset(2, 2).release().perform()
    visit.wait_for_points(2)  # on the target, it is a click also
    ActionChains(desktop).drag_and_drop(visit.find("#source img"), visit.find("#target img")).perform()
    visit.find("#suggest").click()  # a drop would have been taken by then
    visit.wait_for_points(12)
    assert [visit.find(f"#{each} .name").text for each in ("source", "target")] == names
    puts = visit.script("performance.getEntriesByType('resource').filter(e => /photos.source/.test(e.name))")
    assert puts == []
    visit.no_complaints()


def marked(path: Path, size: tuple[int, int], pixel: tuple[int, int]) -> None:
    """A dark photo with a light square of 3 x 3 pixels around one."""
    photo = np.full((size[1], size[0], 3), 20, np.uint8)
    photo[pixel[1] - 1 : pixel[1] + 2, pixel[0] - 1 : pixel[0] + 2] = 250
    Image.fromarray(photo).save(path)


@pytest.mark.parametrize("pixel", [(1, 1), (7, 30), (58, 38), (40, 3)], ids=str)
def test_a_click_on_a_pixel_gives_its_coordinates(
    desktop: Chrome, address: str, tmp_path: Path, pixel: tuple[int, int]
) -> None:
    """Wherever a marked pixel is seen on the screen, a click there says where it is in the photo."""
    path = tmp_path / "marked.png"
    marked(path, (60, 40), pixel)
    visit = Visit(desktop, address)
    visit.upload(path, dhpf.sample("cheetah"))
    visit.style_source(borderRadius=0)
    with Image.open(io.BytesIO(visit.find("#source .photo").screenshot_as_png)) as screen:
        light = np.asarray(screen.convert("L"), float)
    light[light < 128] = 0
    seen = [(light.sum(axis) * np.arange(light.shape[1 - axis])).sum() / light.sum() for axis in (0, 1)]
    left, top, width, _ = source_box(visit)
    click_screen(visit, round(left + seen[0] + 0.5), round(top + seen[1] + 0.5))
    visit.wait_for_points(1)
    ((_, *point, _, _, _),) = visit.table()
    np.testing.assert_allclose(point, pixel, atol=60 / width + 0.06)  # a pixel of the screen, and rounding


def test_clicks_at_the_centres_of_pixels_are_exact(desktop: Chrome, address: str, tmp_path: Path) -> None:
    """Shown eight times as large, every pixel has its centre at a corner of four pixels of the screen."""
    path = tmp_path / "marked.png"
    marked(path, (60, 40), (30, 20))
    visit = Visit(desktop, address)
    visit.upload(path, dhpf.sample("cheetah"))
    visit.style_source(position="fixed", left=0, top=0, width="480px", zIndex=9)
    left, top, width, height = source_box(visit)
    assert (left, top, width, height) == (0, 0, 480, 320)
    pixels = [(0, 0), (59, 39), (59, 0), (17, 23), (30, 20)]
    for count, (x, y) in enumerate(pixels, start=1):
        click_screen(visit, 8 * x + 4, 8 * y + 4)
        visit.wait_for_points(count)
    assert [tuple(row[1:3]) for row in visit.table()] == pixels
    np.testing.assert_allclose(visit.shown("source") * [60, 40] - 0.5, pixels, atol=0.02)


def test_swap(desktop: Chrome, address: str, matcher: dhpf.Matcher) -> None:
    visit = Visit(desktop, address)
    visit.sample()
    click(visit, 0.344, 0.36)
    visit.wait_for_points(1)
    ((_, *_, x, y, _),) = visit.table()
    visit.find("#swap").click()
    visit.wait("document.querySelector('#source .name').textContent.startsWith('cheetah_cub')")
    visit.wait_for_message("Matched")
    visit.wait_for_photos()
    visit.wait_for_points(1)
    ((_, *source, _, _, _),) = visit.table()
    assert source == [x, y]  # the points go along
    check_against(matcher.match(dhpf.sample("cheetah_cub"), dhpf.sample("cheetah")), visit)
    visit.no_complaints()


def test_matches_are_corrected_found_on_the_source_and_absent(
    desktop: Chrome, address: str, matcher: dhpf.Matcher, tmp_path: Path
) -> None:
    """A drag on the target, a click there, the least confidence, points of a file; all outlive a reload."""
    from selenium.webdriver import ActionChains
    from selenium.webdriver.support.ui import WebDriverWait

    def state() -> list[list[str]]:
        """The first cells of all rows, at one moment: the table may be drawn anew at any."""
        cells = "[...row.cells].slice(0, 4).map(cell => cell.innerText.trim())"
        found: list[list[str]] = desktop.execute_script(
            f"return [...document.querySelectorAll('tbody tr')].map(row => {cells})"
        )
        return found

    visit = Visit(desktop, address)
    visit.sample()
    points = tmp_path / "eyes.csv"
    points.write_text("name,x,y\nleft eye,88,92\nright eye,168.5,90.25\n")
    visit.find("#load").send_keys(str(points))
    visit.wait_for_points(2)
    rows = state()
    assert [row[:2] for row in rows] == [["1 left eye", "88.0, 92.0"], ["2 right eye", "168.5, 90.3"]]

    end = visit.find("#overlay .point[data-side=target][data-index='0'] circle")
    before = visit.shown("target")[0]
    ActionChains(desktop).click_and_hold(end).move_by_offset(20, 10).move_by_offset(
        20, 10
    ).release().perform()
    visit.wait_for_message("Point 1 is corrected")
    width = visit.find("#target .photo").size["width"]
    np.testing.assert_allclose((visit.shown("target")[0] - before)[0] * width, 40, atol=2)
    assert state()[0][3] == "by hand" and state()[1] == rows[1]

    photo = visit.find("#target .photo")
    right, down = round(0.1 * width), round(0.2 * photo.size["height"])
    ActionChains(desktop).move_to_element_with_offset(photo, right, down).click().perform()
    visit.wait_for_message("Point 3")
    clicked = visit.shown("target")[2]
    reverse = matcher.match(dhpf.sample("cheetah_cub"), dhpf.sample("cheetah"))
    landed = reverse.transfer([clicked * reverse.source.size - 0.5])[0]
    np.testing.assert_allclose(visit.shown("source")[2] * 256 - 0.5, landed, atol=2)

    visit.script(
        "Object.assign(document.querySelector('#least'), { value: 1 }).dispatchEvent(new Event('input'))"
    )
    visit.wait_for_points(2)  # what the person gave stays
    assert state()[1][2] == "absent"
    desktop.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    visit.find("#png").click()
    WebDriverWait(desktop, PATIENCE).until(lambda _: (tmp_path / "dhpf-lines.png").exists())
    with Image.open(tmp_path / "dhpf-lines.png") as picture:  # where the point was dragged to, in yellow
        size = np.array(drawing_size(reverse.source.size))
        x, y = np.rint(visit.shown("target")[0] * size - 0.5).astype(int).tolist()
        np.testing.assert_allclose(picture.convert("RGB").getpixel((480 + GAP + x, y)), SCALE[-1], atol=1)
    shown = state()
    desktop.refresh()
    visit.wait_for_message("Matched")
    visit.wait_for_points(2)
    WebDriverWait(desktop, PATIENCE).until(lambda _: state() == shown)
    visit.no_complaints()


def test_loading_the_page_again_loses_nothing(desktop: Chrome, address: str, match: dhpf.Match) -> None:
    visit = Visit(desktop, address)
    visit.find("#model").send_keys("hpf-resnet50-searched")
    visit.sample()
    for count, place in enumerate([(0.344, 0.36), (0.66, 0.36)], start=1):
        click(visit, *place)
        visit.wait_for_points(count)
    before = visit.table()
    visit.find("#views input[value=warp] + span").click()
    desktop.refresh()
    visit.wait_for_message("Matched")
    visit.wait_for_photos()
    visit.wait_for_points(2)
    assert visit.table() == before
    visit.wait("document.querySelector('#warped').naturalWidth === 465")
    assert visit.script("document.querySelector('#model').value") == "hpf-resnet50-searched"
    click(visit, 0.5, 0.6)
    visit.wait_for_points(3)
    visit.find("#forget").click()
    visit.wait("document.querySelector('#source .empty')?.checkVisibility()")
    visit.wait("document.querySelectorAll('#samples button').length === 5")
    assert visit.table() == []
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
    visit.wait_for_message("Matched")
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
