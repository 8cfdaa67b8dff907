"""A Chromium without a window that looks at pages: what it fetches, what a search finds, how wide a page is.

It is spoken to in the DevTools protocol over two pipes: JSON that ends with a zero byte.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from highwater.common.errors import UsageError

_DEADLINE_S: Final = 60.0
_OPTIONS: Final = ("--headless", "--disable-gpu", "--disable-breakpad", "--no-first-run", "--remote-debugging-pipe")


def chromium() -> str | None:
    """The program, if this machine has it."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """fetched: the addresses that pages asked for, in order."""

    def __init__(self, write: int, read: int) -> None:
        self.fetched: list[str] = []
        self._write, self._read, self._rest = write, read, b""
        self._number = 0
        self._session: str | None = None
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Network", "Page"):
            self._call(f"{domain}.enable")

    def _call(self, method: str, **parameters: object) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("method") == "Network.requestWillBeSent":
                self.fetched.append(answer["params"]["request"]["url"])
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise UsageError(f"Chromium refuses {method}: {answer['error']['message']}")
                return dict(answer["result"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            if not select.select([self._read], [], [], _DEADLINE_S)[0]:
                raise UsageError(f"Chromium said nothing for {_DEADLINE_S:g} s")
            more = os.read(self._read, 1 << 16)
            if not more:
                raise UsageError("Chromium ended: is it installed with all that it needs?")
            self._rest += more
        text, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(text))

    def size(self, width: int, scheme: str = "light") -> None:
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, address: str) -> None:
        self._call("Page.navigate", url=address)
        self.wait(f"location.href.split('#')[0] === {json.dumps(address)} && document.readyState === 'complete'")

    def value(self, expression: str) -> Any:
        result = self._call("Runtime.evaluate", expression=expression, returnByValue=True)["result"]
        return result.get("value")

    def wait(self, expression: str) -> None:
        until = time.monotonic() + _DEADLINE_S
        while not self.value(expression):
            if time.monotonic() > until:
                raise UsageError(f"Chromium: {expression} was not true within {_DEADLINE_S:g} s")
            time.sleep(0.05)

    def picture(self) -> bytes:
        """What is seen of the page, as PNG."""
        return base64.b64decode(self._call("Page.captureScreenshot")["data"])

    def close(self) -> None:
        self._session = None
        self._call("Browser.close")


@contextmanager
def running_browser() -> Iterator[Browser]:
    """Raises UsageError if there is none."""
    program = chromium()
    if program is None:
        raise UsageError("no chromium here, which looks at pages: apt-get install -y chromium")
    (to_read, write), (read, to_write) = os.pipe(), os.pipe()
    with TemporaryDirectory(prefix="highwater-browser-") as profile, Path(profile, "output").open("w") as output:
        # The protocol's pipes are the descriptors 3 and 4.
        alone = ("--no-sandbox",) if os.geteuid() == 0 else ()  # Its sandbox refuses root.
        command = f'exec 3<&{to_read} 4>&{to_write}; exec "$@"'
        started = subprocess.Popen(
            ["bash", "-c", command, "bash", program, *_OPTIONS, *alone, f"--user-data-dir={profile}"],
            pass_fds=(to_read, to_write),
            stdout=output,
            stderr=output,
        )
        os.close(to_read)
        os.close(to_write)
        try:
            browser = Browser(write, read)
            yield browser
            browser.close()
        finally:
            os.close(write)
            os.close(read)
            started.terminate()
            started.wait(_DEADLINE_S)
