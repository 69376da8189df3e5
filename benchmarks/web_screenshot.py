"""The pages as the documentation shows them, ``web.jpg`` and ``review.jpg``, from the bundled photos.

    python -m benchmarks.web_screenshot [FOLDER]

Needs Chromium, chromedriver and selenium.
"""

from __future__ import annotations

import base64
import io
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from selenium.webdriver import ActionChains, Chrome
from selenium.webdriver.support.expected_conditions import presence_of_element_located
from selenium.webdriver.support.ui import WebDriverWait

from benchmarks.record import ROOT
from benchmarks.web_process import browser, running_server
from dhpf.annotate.run import annotate
from dhpf.samples import sample

WIDTH = 1180
POINTS = ((0.345, 0.355), (0.645, 0.35), (0.49, 0.545), (0.19, 0.17), (0.835, 0.175))  # eyes, nose, ears
MARKED = "name,x,y\nleft eye,88,92\nright eye,166,90\nnose,125,140\nleft ear,48,44\nright ear,214,45\n"


def match_page(path: Path) -> None:
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
        photograph(driver, ".facts", path)


def review_page(path: Path) -> None:
    """Annotate three sample photos from the fourth, open the review, photograph."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "photos").mkdir()
        for name in ("cheetah_cub", "chelsea", "lion"):
            shutil.copy(sample(name), folder / "photos")
        points = folder / "points.csv"
        points.write_text(MARKED)
        reference, photos, file = sample("cheetah"), folder / "photos", folder / "annotations.json"
        annotate(reference, photos, points=points).save(file)
        options = ["--annotations", file, "--images", photos, "--references", reference, "--points", points]
        with running_server(*map(str, options)) as server, browser(WIDTH, 900) as driver:
            driver.get(server.address)
            shown = "#overlay .point[data-side={}]"
            for side in ("source", "target"):
                WebDriverWait(driver, 60).until(
                    presence_of_element_located(("css selector", shown.format(side)))
                )
            photograph(driver, "#keys", path)


def photograph(driver: Chrome, last: str, path: Path) -> None:
    """The page down to an element."""
    height = driver.execute_script(
        f"return document.querySelector('{last}').getBoundingClientRect().bottom + scrollY + 8"
    )
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": height, "scale": 1}
    taken = driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    with Image.open(io.BytesIO(base64.b64decode(taken["data"]))) as picture:
        small = picture.convert("RGB")
        small.thumbnail((1000, 2000), Image.Resampling.LANCZOS)
        small.save(path, quality=70)
    print(f"wrote {path}")


if __name__ == "__main__":
    images = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images"
    match_page(images / "web.jpg")
    review_page(images / "review.jpg")
