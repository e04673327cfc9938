"""Errors of tasks reach the driver with their own type; these need neither Spark nor Java."""

import cbor2
import pytest

from kinspect import errors
from kinspect.errors import (
    CaptureError,
    KinspectError,
    TruncatedCaptureError,
    UnreadableError,
    capture_error,
)
from kinspect.spark.failure import raised_in_task

CAPTURE_ERRORS = [
    kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, CaptureError)
]


@pytest.mark.parametrize("kind", CAPTURE_ERRORS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("unread", [False, True])
def test_an_error_travels(kind, unread):
    error = kind("x.pcap: broken")
    error.unread = unread
    other = capture_error(*cbor2.loads(cbor2.dumps(error.values)))
    assert (type(other), str(other), other.unread) == (kind, "x.pcap: broken", unread)
    assert {TruncatedCaptureError, UnreadableError} <= set(CAPTURE_ERRORS)


def test_the_last_error_of_a_traceback_is_the_one_that_was_raised():
    shown = (
        "PythonException: An exception was thrown from the Python worker:\n"
        "kinspect.errors.TruncatedCaptureError: x.pcap: cut\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        "kinspect.errors.KinspectError: x.pcap changed while it was read\n"
    )
    raised = raised_in_task(RuntimeError(shown))
    assert type(raised) is KinspectError
    assert str(raised) == "x.pcap changed while it was read"


@pytest.mark.parametrize(
    ("shown", "why"),
    [
        (
            "Traceback (most recent call last):\nModuleNotFoundError: No module named 'kinspect'\n\tat org.apache",
            "No module named 'kinspect'",
        ),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.13 than that in driver: 3.11, PySpark"
            " cannot run with different minor versions.\nPlease check",
            "Python in worker has different version: 3.13 than that in driver: 3.11, PySpark cannot run with different"
            " minor versions",
        ),
    ],
)
def test_a_python_that_cannot_run_tasks_is_told(shown, why):
    assert str(raised_in_task(RuntimeError(shown))) == (
        f"Spark's tasks run another Python than this one ({why}); let PYSPARK_PYTHON name one that has kinspect,"
        " before the session begins"
    )


@pytest.mark.parametrize(
    "shown", ["ZeroDivisionError: division by zero", "kinspect.errors.NoSuchError: what", ""]
)
def test_errors_of_others_are_not_ours(shown):
    assert raised_in_task(RuntimeError(shown)) is None
