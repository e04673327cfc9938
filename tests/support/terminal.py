"""A real terminal to type into and to read."""

import os
import re
import subprocess
import time

from support.waiting import wait_until


class Terminal:
    """A terminal of tmux's: `send` keys, `until` the screen holds a text."""

    def __init__(self, folder, size=(100, 34)):
        self._socket = str(folder / "tmux")
        self.log = folder / "status"
        width, height = map(str, size)
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", width, "-y", height, "sh")
        self._tmux("set", "-g", "status", "off")

    def _tmux(self, *arguments):
        # What says how large another terminal is.
        environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        environment["TERM"] = "xterm-256color"
        command = ["tmux", "-S", self._socket, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout

    def run(self, command):
        self._tmux("send-keys", "-l", f"clear; {command}; echo status $? > {self.log}")
        self.send("Enter")

    def send(self, *keys):
        for key in keys:
            self._tmux("send-keys", key)
            time.sleep(0.1)

    def screen(self):
        return self._tmux("capture-pane", "-p")

    def until(self, *texts, patterns=()):
        """The screen once it holds the texts, and the regular expressions match whole lines of it: all of them in one
        look, which may come in the middle of a frame."""
        screen = ""

        def shown():
            nonlocal screen
            screen = self.screen()
            return all(text in screen for text in texts) and all(
                re.search(f"^{pattern}$", screen, re.MULTILINE) for pattern in patterns
            )

        wait_until(shown, lambda: f"{texts} and {patterns} not in\n{screen}")
        return screen

    def status(self):
        wait_until(lambda: self.log.exists() and self.log.read_text().endswith("\n"), self.screen)
        return int(self.log.read_text().split()[1])

    def resize(self, width, height):
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def told(self, what):
        """Value of a variable of tmux about the terminal, as `cursor_flag`."""
        return self._tmux("display-message", "-p", f"#{{{what}}}").strip()

    def close(self):
        self._tmux("kill-server")
