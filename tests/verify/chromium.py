"""A headless Chromium over its debugging pipe: no other program, no port, and every request that a
page makes is seen.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--no-first-run", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
)


class Page:
    """One page in a browser of its own.

    `requests`: addresses that it asked for; `stopped`: those of them that its policy forbade;
    `console`: what it printed, and errors that nothing caught.
    """

    def __init__(self, folder: Path, size: str = "1600,1000") -> None:
        assert CHROMIUM is not None
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        command = [CHROMIUM, *FLAGS, f"--window-size={size}", f"--user-data-dir={folder}", "--remote-debugging-pipe"]
        wiring = f'exec 3<&{to_browser} 4>&{from_browser}; exec "$@"'
        self._browser = subprocess.Popen(
            ["bash", "-c", wiring, "bash", *command, "about:blank"],
            pass_fds=(to_browser, from_browser),
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._last, self._session, self._rest = 0, "", b""
        self.requests: list[str] = []
        self.stopped: set[str] = set()
        self._address: dict[str, str] = {}
        self.console: list[str] = []

    def __enter__(self) -> Page:
        target = next(t for t in self.ask("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self._session = self.ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Network", "Runtime", "Page", "Log"):
            self.ask(f"{domain}.enable")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._browser.terminate()
        self._browser.wait(30)
        os.close(self._read)
        os.close(self._write)

    def ask(self, method: str, **parameters: Any) -> Any:
        """Result of one command of the DevTools protocol."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next(120)
            if answer.get("id") == self._last:
                assert "error" not in answer, answer["error"]
                return answer["result"]

    def _next(self, seconds: float) -> Any:
        deadline = time.monotonic() + seconds
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            block = os.read(self._read, 1 << 20)
            assert block, "the browser ended"
            self._rest += block
        text, self._rest = self._rest.split(b"\0", 1)
        message = json.loads(text)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, event: str | None, what: dict[str, Any]) -> None:
        if event == "Network.requestWillBeSent":
            self.requests.append(what["request"]["url"])
            self._address[what["requestId"]] = what["request"]["url"]
        elif event == "Network.loadingFailed" and what.get("blockedReason") == "csp":
            self.stopped.add(self._address.get(what["requestId"], ""))
        elif event == "Network.webSocketCreated":
            self.requests.append(what["url"])
        elif event == "Runtime.consoleAPICalled":
            self.console.append(" ".join(str(a.get("value", a.get("description"))) for a in what["args"]))
        elif event == "Runtime.exceptionThrown":
            self.console.append(
                what["exceptionDetails"].get("exception", {}).get("description", what["exceptionDetails"]["text"])
            )
        elif event == "Log.entryAdded":
            self.console.append(what["entry"]["text"])

    def run(self, script: str) -> Any:
        """Value of a JavaScript expression, awaited."""
        done = self.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def wait(self, script: str, seconds: float) -> float:
        """Wait until an expression is true; returns how long that took."""
        begin = time.monotonic()
        while not self.run(script):
            assert time.monotonic() - begin < seconds, f"{script} did not become true in {seconds} s: {self.console[-10:]}"
            time.sleep(0.1)
        return time.monotonic() - begin

    def screenshot(self) -> bytes:
        """The page as PNG."""
        return base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"])
