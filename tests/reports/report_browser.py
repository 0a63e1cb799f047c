"""Headless Chromium over the DevTools protocol, through pipes: no port, no further package."""

import base64
import contextlib
import fcntl
import itertools
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)
ANSWER_SECONDS = 120
# Chromium reads commands from descriptor 3 and writes answers to 4.
LAUNCH = "import os, sys; a, b = map(int, sys.argv[1:3]); os.dup2(a, 3); os.dup2(b, 4); "
LAUNCH += "os.execv(sys.argv[3], sys.argv[3:])"


class BrowserError(AssertionError):
    """Chromium is missing, ended or does not answer."""


class Page:
    """One tab, with all console messages and requests since it was opened."""

    def __init__(self, profile: Path):
        self.events: list[dict[str, Any]] = []
        self._numbers = itertools.count(1)
        self._buffer = b""
        self._session: str | None = None
        self._broken: str | None = None
        self._process, self._commands, self._answers = _start(profile)
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            os.close(self._commands)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._answers)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command to the tab and wait for its answer."""
        return self._call(method, **params)

    def open(self, path: Path, *, width: int = 1280, dark: bool = False) -> None:
        """Open a file at a window width in CSS pixels and in a colour scheme; wait until loaded."""
        self.events.clear()
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=path.resolve().as_uri())
        deadline = time.monotonic() + ANSWER_SECONDS
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._receive(deadline)
        self.run("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")

    def run(self, expression: str) -> Any:
        """The JSON value of a JavaScript expression in the page, awaited if it is a promise."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise BrowserError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def type(self, text: str) -> None:
        """Type text where the focus is, as a keyboard would."""
        for letter in text:
            for kind in ("keyDown", "keyUp"):
                more = {"text": letter} if kind == "keyDown" else {}
                self.call("Input.dispatchKeyEvent", type=kind, key=letter, **more)

    def press(self, key: str, code: int) -> None:
        """Press a named key, with its Windows key code."""
        text = {"text": "\r"} if key == "Enter" else {"text": " "} if key == " " else {}
        for kind in ("keyDown", "keyUp"):
            more = text if kind == "keyDown" else {}
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **more
            )

    def screenshot(self, path: Path, *, full: bool = True) -> None:
        """Write the page, or what the window shows of it, as a PNG."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=full)
        path.write_bytes(base64.b64decode(shot["data"]))

    def errors(self) -> list[str]:
        """Uncaught exceptions, console errors and warnings, and the browser's own complaints."""
        return [json.dumps(event) for event in self.events if _complains(event)]

    def requests(self) -> list[str]:
        """The addresses that the page asked for, its own first."""
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event["method"] == "Network.requestWillBeSent"
        ]

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        if self._broken:
            raise BrowserError(self._broken)
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            answer = self._receive(deadline)
            if answer.get("id") == number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']}")
                return dict(answer["result"])

    def _receive(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            left = deadline - time.monotonic()
            ready = left > 0 and select.select([self._answers], [], [], left)[0]
            chunk = os.read(self._answers, 1 << 20) if ready else b""
            if not chunk:
                self._broken = "Chromium ended" if ready else "Chromium does not answer"
                raise BrowserError(self._broken)
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        if "method" in message:
            self.events.append(message)
        return message


def _start(profile: Path) -> tuple[subprocess.Popen[bytes], int, int]:
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        raise BrowserError(
            f"no Chromium on PATH (looked for {', '.join(NAMES)}); the test of the report's page "
            "needs one, on Debian: apt-get install chromium"
        )
    # The children's ends lie above 10 so that moving them to 3 and 4 overwrites neither.
    read_commands, commands = os.pipe()
    answers, write_answers = os.pipe()
    ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (read_commands, write_answers)]
    arguments = [*map(str, ends), program, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCH, *arguments],
        pass_fds=ends,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    for end in (read_commands, write_answers, *ends):
        os.close(end)
    return process, commands, answers


def _complains(event: dict[str, Any]) -> bool:
    method, params = event["method"], event.get("params", {})
    return (
        method == "Runtime.exceptionThrown"
        or (method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"))
        or (method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"))
    )
