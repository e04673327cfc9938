"""What goes wrong in a task, as the driver is told."""

from __future__ import annotations

import re

from kinspect import errors
from kinspect.errors import KinspectError

_IN_TRACEBACK = re.compile(r"kinspect\.errors\.(\w+Error): (.*)")


def raised_in_task(error: BaseException) -> KinspectError | None:
    """The error that a task raised and Spark shows in the middle of a traceback; None if it is none of ours."""
    # The last one: before it stands what caused it.
    found = [*_IN_TRACEBACK.finditer(str(error))]
    kind: type[KinspectError] | None = getattr(errors, found[-1][1], None) if found else None
    return None if kind is None else kind(found[-1][2])


def raised_by_spark(error: BaseException) -> KinspectError | None:
    """What Spark, or the JVM, says is wrong, in a line; None if it is neither's error."""
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
