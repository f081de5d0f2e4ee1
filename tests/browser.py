"""A real browser for the tests that open a page, and what is said where there is none.

Pages are opened from disk. `make test` leaves these tests out without a browser, and says so at its
end; `make test-browser` fails then.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

MISSING = "no browser: pages are NOT tested in one (apt-get install chromium chromium-driver)"


def browser_path() -> str:
    """Debian's chromium, or the browser that CHROMIUM names."""
    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if path is None or shutil.which("chromedriver") is None:
        (pytest.fail if os.environ.get("NEED_BROWSER") else pytest.skip)(MISSING)
    return path


def opened() -> Iterator[Any]:
    """A browser without a window, closed in the end."""
    path = browser_path()
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = path
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    yield driver
    driver.quit()


class Page:
    """A page of ours, as wide as a screen or a telephone, in light or dark."""

    def __init__(
        self, driver: Any, path: Path, width: int = 1400, height: int = 950, *, dark: bool = False
    ) -> None:
        self.driver = driver
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        driver.get_log("browser")
        driver.get(path.resolve().as_uri())

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def until(self, condition: Callable[[], Any]) -> None:
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.driver, 20).until(lambda _: condition())

    def text(self, selector: str) -> str:
        return str(self.run("return document.querySelector(arguments[0]).innerText", selector))

    def find(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def all(self, selector: str) -> list[Any]:
        return list(self.driver.find_elements("css selector", selector))

    def complaints(self) -> list[str]:
        rows = self.driver.get_log("browser")
        return [row["message"] for row in rows if row["level"] == "SEVERE"]

    def overflow(self) -> int:
        """Pixels by which the page is wider than its window."""
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        return int(self.run(f"return {wide}"))

    def undecoded(self) -> list[str]:
        """Pictures that the browser cannot show; those further down are not left for later."""
        return list(
            self.driver.execute_async_script(
                """const alt = (i) => { i.loading = "eager";
                     return i.decode().then(() => null, () => i.alt || i.src); };
                const tell = arguments[0];
                Promise.all([...document.images].map(alt)).then((all) =>
                    tell(all.filter((told) => told !== null)));"""
            )
        )

    def fetched(self) -> list[str]:
        """What the page has asked for, but for what it holds itself."""
        names = self.run("return performance.getEntriesByType('resource').map((e) => e.name)")
        return [name for name in names if not name.startswith("data:")]

    def brightness(self) -> float:
        """Of the page's background, from 0 to 255."""
        colour = self.run("return getComputedStyle(document.body).backgroundColor")
        return sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 3
