"""What goes wrong in a task, as the driver is told."""

from __future__ import annotations

import re
from typing import TypeAlias

from kinspect import errors
from kinspect.errors import CaptureError, KinspectError

Told: TypeAlias = tuple[str, str]
"""An error: the name of its class in `kinspect.errors`, and what it says."""
_IN_TRACEBACK = re.compile(r"kinspect\.errors\.(\w+Error): (.*)")


def told_of(error: CaptureError) -> Told:
    """An error, to be told."""
    return type(error).__name__, str(error)


def error_of(told: Told) -> CaptureError:
    """What `told_of` told."""
    name, text = told
    kind: type[CaptureError] = getattr(errors, name)
    return kind(text)


def raised_in_task(error: BaseException) -> KinspectError | None:
    """The error that a task raised and Spark shows in the middle of a traceback; None if it is none of ours."""
    found = _IN_TRACEBACK.search(str(error))
    if found is None:
        return None
    kind: type[KinspectError] = getattr(errors, found[1])
    return kind(found[2])
