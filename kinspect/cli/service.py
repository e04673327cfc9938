"""`kinspect live` as a service: what is due between two blocks of packets."""

from __future__ import annotations

import os
import time

from kinspect.capture.livecapture import OngoingCapture
from kinspect.cli import complain, outfile
from kinspect.cli.health import health
from kinspect.cli.interrupt import LateError
from kinspect.cli.readrun import ReadRun
from kinspect.cli.sdnotify import READY, STOPPING, WATCHDOG, Notifier
from kinspect.cli.stats import Stats
from kinspect.model import NS_PER_SECOND
from kinspect.wording import counted

STATUS_NS = 5 * NS_PER_SECOND
"""Interval at which a service manager gets a line on how it goes."""
_TERMINAL = "/dev/tty"


def has_terminal() -> bool:
    """True if this process has a terminal that may go away."""
    try:
        os.close(os.open(_TERMINAL, os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


class Hangup:
    """SIGHUP. Where output goes into a file, it asks for that to be opened anew, as after a rotation. But if the
    terminal went away that the process was started from, it asks for the end."""

    def __init__(self, file: bool, ignored: bool) -> None:
        """`file`: output goes into a file; `ignored`: the end of a terminal is no reason to end (nohup)."""
        self._file = file
        self._terminal = not ignored and has_terminal()
        self.asked = False
        """The output is to be opened anew."""

    def taken(self) -> bool:
        """Take a signal; returns False if it asks for the end. May be called from a signal handler."""
        if not self._file or (self._terminal and not has_terminal()):
            return False
        self.asked = True
        return True


class Service:
    """A live run, looked after between blocks of packets: its output, its `stats` lines, and its service manager."""

    def __init__(
        self,
        capture: OngoingCapture,
        run: ReadRun,
        hangup: Hangup,
        notifier: Notifier,
        stats_ns: int | None,
        silent: bool = False,
    ) -> None:
        """`stats_ns`: nanoseconds from a line of type `stats` to the next; None for none. `silent`: nothing is written
        to standard error meanwhile."""
        self._capture = capture
        self._interfaces = capture.interfaces
        self._silent = silent
        self._run = run
        self._stats = Stats(capture, run)
        self._stats_ns = stats_ns
        self._next_stats = time.monotonic_ns() + (stats_ns or 0)
        self._hangup = hangup
        self._notifier = notifier
        self._alarm_ns = notifier.watchdog_ns and notifier.watchdog_ns // 2
        self._next_alarm = self._next_status = 0
        if self._alarm_ns is not None:
            # Twice as often: the last sign of life was a while before the write.
            run.stream.file.tell_waiting(self._alarm_ns // 2, self._notify_waiting)

    def ready(self) -> None:
        """Packets are being captured."""
        self._notifier.send(READY, self._status())

    def attend(self) -> None:
        """Do what is due. All lines so far are written: each block's are before the next one is asked for."""
        if self._hangup.asked:
            self._hangup.asked = False
            self._open_anew()
        self._run.stream.file.tick()
        if not self._silent:
            self._tell_of_interfaces()
        now = time.monotonic_ns()
        if self._stats_ns is not None and now >= self._next_stats:
            self._next_stats = now + self._stats_ns
            self._write_stats(now)
        if self._notifier.active:
            self._notify(now)

    def end(self) -> None:
        """The capture has ended, and what it gave is written."""
        self._notifier.send(STOPPING)
        self._notifier.close()
        if self._stats_ns is not None:
            try:
                with self._run.interrupt.breakable():
                    self._write_stats(time.monotonic_ns())
            except LateError:
                # Nobody reads it.
                outfile.discard(self._run.stream)

    def _tell_of_interfaces(self) -> None:
        """Tell of those that went away, and of those that are there again."""
        before, self._interfaces = self._interfaces, self._capture.interfaces
        if not any(each.up for each in self._interfaces.values()):
            # The capture ends, and says why.
            return
        for name, now in self._interfaces.items():
            if now.losses > before[name].losses:
                complain(
                    f"{name}: the interface went away: nothing is captured from it until it is there again"
                )
            if now.up and (now.losses, now.up) != (before[name].losses, before[name].up):
                complain(f"{name}: the interface is there again")

    def _write_stats(self, now: int) -> None:
        self._run.tell(self._stats.line(now))
        self._run.flush()

    def _open_anew(self) -> None:
        self._notifier.reloading()
        self._run.stream.flush()
        try:
            self._run.stream.file.anew()
        except OSError as error:
            complain(
                f"SIGHUP: {self._run.options.path}: {error.strerror or error}: lines go on into the file that is open"
            )
        self._notifier.send(READY)

    def _notify(self, now: int) -> None:
        # A block came, if only one without packets: the capturing process is alive, and decoding goes on.
        self._sign_of_life(now)
        if now >= self._next_status:
            self._next_status = now + STATUS_NS
            self._notifier.send(self._status())

    def _notify_waiting(self) -> None:
        # Whoever reads the output is slow, which a new start would not change.
        if self._capture.capturing:
            self._sign_of_life(time.monotonic_ns())

    def _sign_of_life(self, now: int) -> None:
        if self._alarm_ns is not None and now >= self._next_alarm:
            self._next_alarm = now + self._alarm_ns
            self._notifier.send(WATCHDOG)

    def _status(self) -> str:
        now = health(self._capture, self._run)
        return (
            f"STATUS=capturing on {self._capture.files[0]}: {counted(now.packets, 'packet', '')},"
            f" {(now.kernel_drops or 0) + now.queue_drops} dropped,"
            f" {counted(self._run.tally.shown, 'exchange', '')} shown"
        )
