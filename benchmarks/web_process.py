"""A real ``dhpf web`` process and a real browser, for the soak, the screenshot and the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from selenium.webdriver import Chrome


class Server(NamedTuple):
    """A running page."""

    address: str
    process: subprocess.Popen[str]


@contextmanager
def running_server(*options: str, stderr: int | None = None) -> Iterator[Server]:
    """Start ``dhpf web`` on a free port of this machine; stop it in the end."""
    command = [sys.executable, "-m", "dhpf", "web", "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()  # waits until the page can be opened
        if not line.startswith("open "):
            raise RuntimeError(f"dhpf web did not start: {line!r}")
        yield Server(line.split()[1], process)
    finally:
        if process.poll() is None:
            process.terminate()
            process.communicate(timeout=20)


def missing_for_browser() -> str | None:
    """What a browser test lacks on this machine, if anything."""
    try:
        import selenium  # noqa: F401
    except ModuleNotFoundError:
        return "selenium is not installed"
    lacking = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"{' and '.join(lacking)} not found" if lacking else None


@contextmanager
def browser(width: int = 1280, height: int = 900, dark: bool = False) -> Iterator[Chrome]:
    """Headless Chromium whose page is ``width`` x ``height`` CSS pixels, light or dark."""
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    for argument in ("--headless=new", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options.add_argument("--no-sandbox")  # Chromium has none for the superuser
    options.binary_location = shutil.which("chromium") or ""
    driver = Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        yield driver
    finally:
        driver.quit()
