"""Chromium without a window, told by the DevTools protocol over two pipes: one process for many pages."""

import json
import os
import subprocess
from itertools import count

DESKTOP = (1280, 900)
PHONE = (375, 740)


class Browser:
    """A browser with one page; a context manager, which ends it.

    `asked`: the addresses that the pages asked for since the last `open`.
    """

    def __init__(self, folder):
        """`folder`: where the browser may keep its own files."""
        self._ids = count(1)
        self.asked = []
        mine, its_output = os.pipe()
        its_input, self._to = os.pipe()
        # The browser reads descriptor 3 and writes descriptor 4.
        command = (
            f"exec 3<&{its_input} 4>&{its_output}; exec chromium --headless --no-sandbox --disable-gpu "
            f'--remote-debugging-pipe --user-data-dir="$0"'
        )
        self._process = subprocess.Popen(
            ["bash", "-c", command, str(folder)],
            pass_fds=(its_input, its_output),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(its_input)
        os.close(its_output)
        self._from = os.fdopen(mine, "rb")
        self._session = None
        target = self._told("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._told("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._told("Page.enable")
        self._told("Network.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        self._from.close()

    def open(self, address, size=DESKTOP, *, dark=False):
        """Open an address and wait until all of it is loaded."""
        self.asked.clear()
        self._told(
            "Emulation.setDeviceMetricsOverride",
            width=size[0],
            height=size[1],
            deviceScaleFactor=1,
            mobile=size == PHONE,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._told("Emulation.setEmulatedMedia", features=[scheme])
        self._told("Page.navigate", url=address)
        while self._next().get("method") != "Page.loadEventFired":
            pass

    def run(self, script):
        """What an expression, or a promise, of the page is: what JSON has. Raises ValueError for what it throws."""
        found = self._told(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True
        )
        if "exceptionDetails" in found:
            raise ValueError(found["exceptionDetails"]["exception"].get("description", found))
        return found["result"].get("value")

    def _told(self, method, **parameters):
        number = next(self._ids)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != number:
            pass
        if "error" in answer:
            raise ValueError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def _next(self):
        text = bytearray()
        while (piece := self._from.read(1)) != b"\0":
            if not piece:
                raise EOFError("the browser has ended")
            text += piece
        message = json.loads(text)
        if message.get("method") == "Network.requestWillBeSent":
            self.asked.append(message["params"]["request"]["url"])
        return message
