"""Debian's Firefox, driven over WebDriver BiDi: it speaks that without geckodriver or a patched build."""

import itertools
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

FIREFOX = Path("/usr/bin/firefox-esr")
STARTING = 60.0
"""Seconds until Firefox must listen: it starts in about three on a free core, and tests share theirs."""
ANSWERING = 60.0


class Firefox:
    """One tab. What its page complains about is in `problems`."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.numbers = itertools.count(1)
        self.problems: list[str] = []
        self.send("session.new", capabilities={})
        self.send("session.subscribe", events=["log.entryAdded"])
        self.tab = self.send("browsingContext.getTree")["contexts"][0]["context"]

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of one command; events that arrive before it are kept."""
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.recv(timeout=ANSWERING))
            if message.get("method") == "log.entryAdded":
                self.problems.append(f"{message['params']['level']}: {message['params']['text']}")
            elif message.get("id") == number:
                if message["type"] == "error":
                    raise AssertionError(f"{method}: {message['error']}: {message['message']}")
                found: dict[str, Any] = message["result"]
                return found

    def open(self, address: str) -> None:
        self.send("browsingContext.navigate", context=self.tab, url=address, wait="complete")

    def evaluate(self, expression: str) -> Any:
        """A string, number or truth value that the page computes; promises are awaited."""
        target = {"context": self.tab}
        found = self.send("script.evaluate", expression=expression, target=target, awaitPromise=True)
        if found["type"] == "exception":
            raise AssertionError(f"{expression}: {found['exceptionDetails']['text']}")
        return found["result"].get("value")

    def wait_for(self, expression: str) -> None:
        end = time.monotonic() + ANSWERING
        while not self.evaluate(f"Boolean({expression})"):
            assert time.monotonic() < end, f"Firefox waited for {expression}"
            time.sleep(0.05)

    def click(self, selector: str) -> None:
        """A click of the mouse in the middle of the element, as a person makes it."""
        self.evaluate(f"document.querySelector({selector!r}).scrollIntoView({{block: 'center', behavior: 'instant'}})")
        box = json.loads(self.evaluate(f"JSON.stringify(document.querySelector({selector!r}).getBoundingClientRect())"))
        place = {"x": round(box["x"] + box["width"] / 2), "y": round(box["y"] + box["height"] / 2)}
        moves: list[dict[str, Any]] = [{"type": "pointerMove", **place}]
        moves += [{"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        mouse = {"type": "pointer", "id": "mouse", "actions": moves}
        self.send("input.performActions", context=self.tab, actions=[mouse])


@contextmanager
def firefox() -> Iterator[Firefox]:
    """Firefox without a window, with an empty profile; it ends with the block."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [str(FIREFOX), "--headless", "--no-remote", "--profile", profile, "--remote-debugging-port", "0"]
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "env": os.environ | {"HOME": profile}}
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **quiet)
        try:
            with connect(_address(process) + "/session", open_timeout=STARTING, max_size=None) as socket:
                yield Firefox(socket)
        finally:
            process.terminate()
            process.communicate(timeout=STARTING)


def _address(process: "subprocess.Popen[str]") -> str:
    """The websocket that Firefox names on its standard error."""
    assert process.stderr is not None
    told = []
    for line in process.stderr:
        told.append(line)
        if "WebDriver BiDi listening on " in line:
            return line.split("listening on ")[1].strip()
    raise AssertionError("Firefox did not start: " + "".join(told))
