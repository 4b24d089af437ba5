"""A browser without a window: Debian's `chromium`, told what to do by `chromium-driver` in the words of WebDriver.

https://www.w3.org/TR/webdriver2/ describes the requests.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.localcluster.doctor import install_packages
from tools.localcluster.ports import free_port

from .waiting import until

_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
"""Key under which an answer has the identity of an element."""
_ARGUMENTS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions"),
    *("--no-first-run", "--disable-background-networking", "--window-size=1280,1000", "--lang=en"),
)


_PROGRAMS = {"chromium": "chromium", "chromium-driver": "chromedriver"}
"""Debian's package → program."""


class BrowserError(Exception):
    """The browser could not do what it was told."""


@dataclass(frozen=True)
class Element:
    """An element of a page."""

    browser: Browser
    id: str

    def click(self) -> None:
        self.browser.send("POST", f"/element/{self.id}/click", {})

    def type(self, text: str) -> None:
        self.browser.send("POST", f"/element/{self.id}/clear", {})
        self.browser.send("POST", f"/element/{self.id}/value", {"text": text})

    @property
    def text(self) -> str:
        return self.browser.send("GET", f"/element/{self.id}/text")

    def attribute(self, name: str) -> str | None:
        return self.browser.send("GET", f"/element/{self.id}/attribute/{name}")

    @property
    def is_shown(self) -> bool:
        return self.browser.send("GET", f"/element/{self.id}/displayed")


@dataclass
class Browser:
    """One session, with its own cookies."""

    driver: str
    """URL of the driver."""
    session: str = ""

    def send(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """What the driver answers. Raises BrowserError with its message."""
        url = f"{self.driver}/session/{self.session}{path}" if self.session else f"{self.driver}{path}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=180) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            said = json.load(error)["value"]
            raise BrowserError(f"{said['error']}: {said['message'].splitlines()[0]}") from error

    def open(self, url: str) -> None:
        self.send("POST", "/url", {"url": url})

    @property
    def url(self) -> str:
        return self.send("GET", "/url")

    @property
    def source(self) -> str:
        return self.send("GET", "/source")

    def all(self, selector: str) -> list[Element]:
        """The elements that a CSS selector chooses now."""
        found = self.send("POST", "/elements", {"using": "css selector", "value": selector})
        return [Element(self, each[_ELEMENT]) for each in found]

    def find(self, selector: str, timeout: float = 60) -> Element:
        """The first element of the selector that is shown, as soon as there is one."""

        def look() -> Element | None:
            try:
                return next((each for each in self.all(selector) if each.is_shown), None)
            except BrowserError:
                # The page was replaced in between.
                return None

        return until(f"{selector} on {self.url}", look, timeout, 0.5)

    def run(self, script: str) -> Any:
        """What a script in the page returns."""
        return self.send("POST", "/execute/sync", {"script": script, "args": []})

    @contextmanager
    def inside(self, frame: Element) -> Generator[None]:
        """Elements are those of a frame of the page."""
        self.send("POST", "/frame", {"id": {_ELEMENT: frame.id}})
        try:
            yield
        finally:
            self.send("POST", "/frame", {"id": None})

    def photograph(self, path: Path) -> Path:
        """The page as a PNG."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self.send("GET", "/screenshot")))
        return path


@contextmanager
def browsing() -> Generator[Browser]:
    """A browser, which accepts the certificates of a cloud's own authority. Installs it on a machine without one."""
    install_packages([package for package, program in _PROGRAMS.items() if not shutil.which(program)])
    program, driver = (str(shutil.which(each)) for each in _PROGRAMS.values())
    port = free_port()
    process = subprocess.Popen([driver, f"--port={port}", "--silent"], stdout=subprocess.DEVNULL)
    browser = Browser(f"http://127.0.0.1:{port}")
    try:
        until("the driver of the browser", lambda: _is_ready(browser), 60, 0.2, stages=())
        options = {"binary": program, "args": list(_ARGUMENTS)}
        wanted = {"browserName": "chrome", "acceptInsecureCerts": True, "goog:chromeOptions": options}
        browser.session = browser.send("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
        yield browser
    finally:
        if browser.session:
            browser.send("DELETE", "")
        process.terminate()
        process.wait(30)


def _is_ready(browser: Browser) -> bool:
    try:
        return bool(browser.send("GET", "/status")["ready"])
    except OSError:
        return False
