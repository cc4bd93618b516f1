"""A headless Chromium, driven over WebDriver with nothing but the standard library."""

from __future__ import annotations

import contextlib
import json
import shutil
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

from tests.integration.world import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.world import World

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-breakpad",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-proxy-server",
)
PROGRAMS = ("chromium", "chromedriver")
PATIENCE_SECONDS = 60


class Refused(Exception):
    """The browser did not do what it was asked for."""


class Browser:
    """One window of a browser that has never been used; its processes are some of `world`'s.

    `folder` is where it keeps what it has to remember; a browser that is closed leaves no process.
    """

    def __init__(self, world: World, folder: Path) -> None:
        chromium, driver = (shutil.which(program) for program in PROGRAMS)
        assert chromium, "there is no chromium: apt-get install chromium"
        assert driver, "there is no chromedriver: apt-get install chromium-driver"
        folder.mkdir()
        log = folder / "driver.log"
        with log.open("w") as said:
            self._driver = world.spawn(driver, "--port=0", stdout=said, stderr=said)
        try:
            port = until(lambda: log.read_text().partition(" successfully on port ")[2].partition(".")[0])
            self._url = f"http://127.0.0.1:{port}/session"
            options = {"binary": chromium, "args": [*FLAGS, f"--user-data-dir={folder / 'profile'}"]}
            wanted = {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options}}
            session = self._ask("POST", "", {"capabilities": wanted})["sessionId"]
        except BaseException:
            self._end_driver()
            raise
        self._url += f"/{session}"

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *failure: object) -> None:
        try:
            self._ask("DELETE", "")
        finally:
            self._end_driver()

    def open(self, url: str) -> None:
        """Go to a page, and wait until it is there."""
        self._ask("POST", "/url", {"url": url})

    @property
    def url(self) -> str:
        """Where the page that is shown is from."""
        return str(self._ask("GET", "/url"))

    @property
    def text(self) -> str:
        """All that can be read on the page; nothing while there is none."""
        script = "return document.body ? document.body.innerText.trim() : ''"
        return str(self._ask("POST", "/execute/sync", {"script": script, "args": []}))

    def wait_for(self, words: str, origin: str = "") -> str:
        """Wait for the page that begins so, of `origin` if one is given: a click does not wait for what it leads to.

        Returns:
            All that can be read on it.
        """

        def found() -> str | None:
            # Between two pages there is none that could be asked.
            with contextlib.suppress(Refused):
                return self.text if self.url.startswith(origin) and self.text.startswith(words) else None
            return None

        return until(found, seconds=PATIENCE_SECONDS, seen=lambda: (self.url, self.text))

    def write(self, selector: str, text: str) -> None:
        """Type into a field."""
        self._ask("POST", f"/element/{self._find(selector)}/value", {"text": text})

    def click(self, selector: str) -> None:
        """Click on what is there once and can be seen."""
        self._ask("POST", f"/element/{self._find(selector)}/click", {})

    def follow(self, words: str) -> None:
        """Click on the link that reads so."""
        self._ask("POST", f"/element/{self._find(words, 'partial link text')}/click", {})

    def _find(self, what: str, using: str = "css selector") -> str:
        (element,) = until(lambda: self._ask("POST", "/elements", {"using": using, "value": what}))
        return str(element[ELEMENT])

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with direct.open(request, timeout=PATIENCE_SECONDS) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as refusal:
            with refusal:
                raise Refused(f"{method} {path}: {refusal.read().decode()[:500]}") from None

    def _end_driver(self) -> None:
        self._driver.terminate()
        self._driver.wait(PATIENCE_SECONDS)


# Never through a proxy: all of it is on this machine.
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
