"""Chromium driven as a person would: pages opened, looked at, clicked and typed into, over its DevTools protocol."""

import base64
import json
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars"),
    *("--disable-extensions", "--mute-audio"),
)
DRIVEN = ("--remote-debugging-port=0", "about:blank")
TOLD = ("--enable-logging=stderr", "--virtual-time-budget=20000")
CHARACTERS = {"Enter": "\r", "Space": " "}


def chromium_binary() -> str | None:
    """Where it is, if it is anywhere."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@dataclass(frozen=True)
class Chromium:
    """Headless, with a profile of its own: looks at a page and ends."""

    binary: str
    profile: Path

    def run(self, page: Path, *flags: str, width: int = 1200, height: int = 900) -> tuple[str, list[str]]:
        """What it prints, and what the page's console said."""
        profile, size = f"--user-data-dir={self.profile}", f"--window-size={width},{height}"
        command = [self.binary, *QUIET, *TOLD, profile, size, *flags, page.resolve().as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
        return done.stdout, [line for line in done.stderr.splitlines() if ":CONSOLE" in line]


@dataclass(eq=False)
class Page:
    """One tab, what its console said that is worse than a note, and which requests were refused or got nowhere."""

    connection: ClientConnection
    console: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    _count: int = 0

    def __post_init__(self) -> None:
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the protocol."""
        self._count += 1
        self.connection.send(json.dumps({"id": self._count, "method": method, "params": parameters}))
        while True:
            told = json.loads(self.connection.recv(timeout=30))
            if told.get("id") == self._count:
                if "error" in told:
                    raise AssertionError(f"{method}: {told['error']}")
                result: dict[str, object] = told["result"]
                return result
            self._heard(told)

    def tell(self, script: str) -> Any:
        """What an expression of JavaScript comes to, awaited where it is a promise."""
        told = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in told:
            raise AssertionError(f"{script}: {told['exceptionDetails']['exception'].get('description')}")
        return told["result"].get("value")

    def inject(self, script: str) -> None:
        """Run a script as a debugger does, which the page's own rules do not forbid."""
        self.call("Runtime.evaluate", expression=script)

    def open(self, address: str) -> None:
        """Go there, and wait until it is there."""
        self.call("Page.navigate", url=address)
        assert self.eventually(f"location.href.startsWith({address!r}) && document.readyState === 'complete'"), address

    def eventually(self, script: str, within: float = 10.0) -> bool:
        """Wait until an expression holds; tells whether it came to that."""
        until = time.monotonic() + within
        while not self.tell(f"!!({script})"):
            if time.monotonic() > until:
                return False
            time.sleep(0.02)
        return True

    def text(self, selector: str) -> str:
        """What is written in the first element."""
        return str(self.tell(f"document.querySelector({selector!r})?.innerText ?? ''"))

    def shows(self, selector: str, words: str, within: float = 10.0) -> bool:
        """Wait until something is written there."""
        found = f"[...document.querySelectorAll({selector!r})].some((one) => one.innerText.includes({words!r}))"
        return self.eventually(found, within)

    def click(self, selector: str, named: str = "") -> None:
        """With the mouse, where it is seen; of several that which is called so."""
        where = f"""(() => {{
              const one = [...document.querySelectorAll({selector!r})].find((one) => one.innerText.includes({named!r}));
              if (!one || one.disabled) return null;
              one.scrollIntoView({{block: "center"}});
              const box = one.getBoundingClientRect(), at = [box.x + box.width / 2, box.y + box.height / 2];
              const there = document.elementFromPoint(...at);
              return one.contains(there) ? at : null;
            }})()"""
        assert self.eventually(where), f"nobody can click {selector} {named}"
        found = self.tell(where)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=found[0], y=found[1], button="left", clickCount=1)

    def press(self, key: str, shift: bool = False) -> None:
        """One key."""
        said = {"key": " " if key == "Space" else key, "code": key, "modifiers": 8 if shift else 0}
        code = {"Tab": 9, "Enter": 13, "Escape": 27, "Space": 32, "ArrowLeft": 37, "ArrowRight": 39}.get(key, 0)
        text = {"text": CHARACTERS[key]} if key in CHARACTERS else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", windowsVirtualKeyCode=code, **said, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", windowsVirtualKeyCode=code, **said)

    def write(self, selector: str, text: str) -> None:
        """In place of what a field holds."""
        self.tell(f"(() => {{ const one = document.querySelector({selector!r}); one.focus(); one.select(); }})()")
        self.call("Input.insertText", text=text)

    def look_like(self, width: int, height: int, dark: bool = False) -> None:
        """A screen of that size, in the light or in the dark."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, file: Path, whole: bool = False) -> None:
        """What is seen, as PNG; or all of the page."""
        told = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(told["data"]))

    def _heard(self, told: dict[str, Any]) -> None:
        """Notes of the console, errors and warnings, and what nobody caught."""
        method, parameters = told.get("method"), told.get("params", {})
        if method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.console.append(" ".join(str(one.get("value", one.get("description"))) for one in parameters["args"]))
        elif method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.console.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            entry = parameters["entry"]
            place = self.failed if entry["source"] == "network" else self.console
            place.append(f"{entry['text']} {entry.get('url', '')}")


@contextmanager
def browsed(profile: Path) -> Iterator[Page]:
    """A browser with a profile of its own, until the end of the block."""
    binary = chromium_binary()
    assert binary is not None
    process = subprocess.Popen(
        [binary, f"--user-data-dir={profile}", *QUIET, *DRIVEN], stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        found = (re.search(r"DevTools listening on ws://([^/]+)/", line) for line in process.stderr)
        host = next(one[1] for one in found if one)
        yield from _tab(host)
    finally:
        process.terminate()
        process.communicate()


def _tab(host: str) -> Iterator[Page]:
    with urllib.request.urlopen(f"http://{host}/json/list") as told:
        address = next(one["webSocketDebuggerUrl"] for one in json.load(told) if one["type"] == "page")
    with connect(address, max_size=1 << 28) as connection:
        yield Page(connection)
