"""Work in another process, which is forked: it begins with everything that was loaded and compiled."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kinspect.errors import KinspectError


class Child:
    """Forked process that does `work` and ends, with status 0, or 1 if `work` raises.

    `foreign`: descriptors of this process that it does not hold, so that what waits for their end hears of it.
    `ignored`: signals that are this process's to answer. To be made before there are threads. Raises OSError if the
    system cannot start a process.
    """

    def __init__(
        self,
        work: Callable[[], object],
        foreign: Iterable[int] = (),
        ignored: Iterable[int] = (),
        nice: int = 0,
    ) -> None:
        self.pid = os.fork()
        self._status: int | None = None
        if self.pid:
            return
        status = 1
        # It must not return into the code of the first process.
        try:
            for descriptor in foreign:
                os.close(descriptor)
            for number in ignored:
                signal.signal(number, signal.SIG_IGN)
            os.nice(nice)
            work()
            status = 0
        finally:
            os._exit(status)

    @property
    def running(self) -> bool:
        """True while the process runs. May be asked in any thread."""
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        except ChildProcessError:
            return False

    def status(self) -> int:
        """Wait status of the process (see `os.waitpid`), once it has ended."""
        if self._status is None:
            _, self._status = os.waitpid(self.pid, 0)
        return self._status

    def tell(self, number: int) -> None:
        """Send it a signal, unless its end was heard of."""
        if self._status is None:
            os.kill(self.pid, number)

    def end(self) -> None:
        """Kill it if it has not ended; may be called again."""
        self.tell(signal.SIGKILL)
        self.status()


class ElsewhereError(Exception):
    """An unexpected exception of another process; its `repr` is that of the original."""

    def __repr__(self) -> str:
        return str(self)


_ERRORS: dict[str, Callable[..., BaseException]] = {
    "system": OSError,
    "known": KinspectError,
    "internal": ElsewhereError,
}


def telling(
    work: Callable[[], object],
    tell: Callable[[list[Any]], object],
    gone: type[BaseException] | tuple[type[BaseException], ...],
    who: str,
) -> None:
    """Do the work of another process, and tell what goes wrong, for `error_from`. `gone`: exceptions that show that
    nobody listens any more; `who`: the process, for the note with the traceback."""
    try:
        try:
            work()
        except gone:
            raise
        except BaseException as error:
            tell(_told(error, who))
    except gone:
        pass


def _told(error: BaseException, who: str) -> list[Any]:
    """An exception as plain values: a key of `_ERRORS`, its arguments, and its traceback."""
    import traceback  # only for this

    where = f"in {who}: {''.join(traceback.format_exception(error))}"
    # Names of files may hold what no text can.
    note = where.encode(errors="backslashreplace").decode()
    if isinstance(error, OSError):
        return ["system", [error.errno, error.strerror], note]
    if isinstance(error, KinspectError):
        return ["known", [str(error)], note]
    return ["internal", [repr(error)], note]


def error_from(told: Sequence[Any]) -> BaseException:
    """The exception that `telling` told, with its traceback as a note."""
    kind, arguments, note = told
    error = _ERRORS[kind](*arguments)
    error.add_note(note)
    return error


def spoken(error: BaseException, then: str = "") -> str:
    """An exception of another process as a person is told; `then`: what is added where it is an unexpected one."""
    return str(error) if isinstance(error, KinspectError) else f"internal error: {error!r}{then}"
