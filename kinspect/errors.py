"""Exceptions of kinspect. Damage in a capture is never raised: it is data, a `model.Problem` in the output."""

from __future__ import annotations

from typing import Any, ClassVar

MESSAGE_HEAD, MESSAGE_TAIL = 1_500, 400
"""Characters kept of a message's beginning and end. The message may quote a capture."""


def shortened(message: str) -> str:
    """The message, with its middle left out if it is long."""
    left_out = len(message) - MESSAGE_HEAD - MESSAGE_TAIL
    if left_out <= 0:
        return message
    return f"{message[:MESSAGE_HEAD]} …({left_out} characters left out)… {message[-MESSAGE_TAIL:]}"


class KinspectError(Exception):
    """Base of all exceptions of kinspect. The message is one line for the user, with the cause, the place, and often
    the remedy. `status`: exit status of a command that met it."""

    status: ClassVar[int] = 1

    def __init__(self, message: str = "") -> None:
        super().__init__(shortened(message))


class CaptureError(KinspectError):
    """An input that could not be opened, or is not a capture. `unread`: nothing of the input was read."""

    unread = False

    @property
    def values(self) -> tuple[str, str, bool]:
        """Class name, message and `unread`, for `capture_error` in another process."""
        return type(self).__name__, str(self), self.unread


class TruncatedCaptureError(CaptureError):
    """An input that ends in the middle of a packet or block; everything before it was handed on."""

    status = 3


class UnreadableError(CaptureError):
    """An input that the system failed to read; another try may succeed."""


_CAPTURE_ERRORS = {kind.__name__: kind for kind in (CaptureError, TruncatedCaptureError, UnreadableError)}


def capture_error(kind: str, message: str, unread: bool) -> CaptureError:
    """The error that has these `values`."""
    error = _CAPTURE_ERRORS[kind](message)
    error.unread = unread
    return error


class MissingLibraryError(KinspectError):
    """An optional library that is not installed, or too old."""

    status = 2


class StateError(KinspectError):
    """Stored state of an inspector (`Inspector.suspend`) that is damaged, or of another version."""


class DecodeError(KinspectError):
    """Bytes of a message that do not fit its layout, or a message without a known layout.

    `offset`: index of the field's first byte in the bytes given to the decoder. `path`: the field, as
    `topics[2].partitions[0].records`; None if none is known. `body`: the fields read before the failure; None if there
    are none. `api_key`, `api_version`: those of the message, None if its header was not read.
    """

    def __init__(
        self,
        message: str,
        *,
        offset: int = 0,
        path: str | None = None,
        body: dict[str, Any] | None = None,
        api_key: int | None = None,
        api_version: int | None = None,
    ) -> None:
        super().__init__(message)
        self.offset = offset
        self.path = path
        self.body = body
        self.api_key = api_key
        self.api_version = api_version
