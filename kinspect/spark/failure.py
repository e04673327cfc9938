"""Errors of tasks and of Spark as errors of kinspect."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from kinspect import errors
from kinspect.errors import KinspectError

_OTHER_PYTHON = re.compile(
    r"ModuleNotFoundError: (No module named .*)|\[PYTHON_VERSION_MISMATCH\] (.*?)\.?(?:\n|$)"
)
_IN_TRACEBACK = re.compile(r"kinspect\.errors\.(\w+Error): (.*)")


def raised_in_task(error: BaseException) -> KinspectError | None:
    """The KinspectError of a task, which Spark shows within a traceback, or one on its Python; else None."""
    if other := _OTHER_PYTHON.search(str(error)):
        return KinspectError(
            f"Spark's tasks run another Python than this one ({other[1] or other[2]});"
            " let PYSPARK_PYTHON name one that has kinspect, before the session begins"
        )
    # The last one: its causes stand before it.
    found = [*_IN_TRACEBACK.finditer(str(error))]
    kind: type[KinspectError] | None = getattr(errors, found[-1][1], None) if found else None
    return None if kind is None else kind(found[-1][2])


@contextmanager
def to_be_finished(path: str) -> Iterator[None]:
    """Context that puts a run's tables in place, as the next run does if this one fails."""
    try:
        yield
    except Exception as error:
        told = error if isinstance(error, KinspectError) else raised_by_spark(error) or error
        raise KinspectError(f"{path}: not all is in place, run again to finish: {told}") from error


def raised_by_spark(error: BaseException) -> KinspectError | None:
    """The message of Spark or the JVM, in one line; None for another error."""
    from py4j.protocol import Py4JJavaError, Py4JNetworkError
    from pyspark.errors import PySparkException

    if isinstance(error, Py4JJavaError):
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        text = str(cause.toString())
    elif isinstance(error, PySparkException | Py4JNetworkError):
        text = str(error)
    else:
        return None
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return KinspectError(f"Spark: {first}")
