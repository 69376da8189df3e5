"""The page as the README shows it: ``docs/images/web.jpg``, from the bundled photos.

    python -m benchmarks.web_screenshot [OUT.jpg]

Needs Chromium, chromedriver and selenium.
"""

from __future__ import annotations

import base64
import io
import sys
from pathlib import Path

from PIL import Image
from selenium.webdriver import ActionChains
from selenium.webdriver.support.expected_conditions import presence_of_element_located
from selenium.webdriver.support.ui import WebDriverWait

from benchmarks.record import ROOT
from benchmarks.web_process import browser, running_server

WIDTH = 1180
POINTS = ((0.345, 0.355), (0.645, 0.35), (0.49, 0.545), (0.19, 0.17), (0.835, 0.175))  # eyes, nose, ears


def main(path: Path) -> None:
    """Open the page, take a sample pair, click, photograph."""
    with running_server() as server, browser(WIDTH, 1000) as driver:
        wait = WebDriverWait(driver, 60)
        driver.get(server.address)
        wait.until(lambda page: page.find_elements("css selector", "#samples button"))[0].click()
        wait.until(lambda page: page.find_element("id", "message").text.startswith("Matched"))
        photo = driver.find_element("css selector", "#source .photo")
        for index, (x, y) in enumerate(POINTS):
            right, down = (
                round((share - 0.5) * photo.size[side]) for share, side in ((x, "width"), (y, "height"))
            )
            ActionChains(driver).move_to_element_with_offset(photo, right, down).click().perform()
            shown = f"#overlay .point[data-side=target][data-index='{index}']"
            wait.until(presence_of_element_located(("css selector", shown)))
        height = driver.execute_script(
            "return document.querySelector('.facts').getBoundingClientRect().bottom + scrollY + 20"
        )
        clip = {"x": 0, "y": 0, "width": WIDTH, "height": height, "scale": 1}
        taken = driver.execute_cdp_cmd(
            "Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip}
        )
    with Image.open(io.BytesIO(base64.b64decode(taken["data"]))) as picture:
        picture.convert("RGB").save(path, quality=85)
    print(f"wrote {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images" / "web.jpg")
