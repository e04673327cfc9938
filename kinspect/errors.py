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
    """An error with one clear line for the user: what went wrong, where, and what to do."""

    def __init__(self, message: str = "") -> None:
        super().__init__(shortened(message))


class CaptureError(KinspectError):
    """An input that could not be opened, or is not a capture. `status`: exit status of a command that met it; `unread`:
    nothing of the input was read."""

    status: ClassVar[int] = 1
    unread = False

    @property
    def values(self) -> tuple[str, str, bool]:
        """Class name, message and `unread`, for `capture_error` in another process."""
        return type(self).__name__, str(self), self.unread


class TruncatedCaptureError(CaptureError):
    """An input ended in the middle of a packet or block; everything before it was handed on."""

    status = 3


class UnreadableError(CaptureError):
    """The system failed to read an input that may hold more: another try may succeed."""


_CAPTURE_ERRORS = {kind.__name__: kind for kind in (CaptureError, TruncatedCaptureError, UnreadableError)}


def capture_error(kind: str, message: str, unread: bool) -> CaptureError:
    """The error that has these `values`."""
    error = _CAPTURE_ERRORS[kind](message)
    error.unread = unread
    return error


class StateError(KinspectError):
    """Carried state that is damaged, or of another version."""


class DecodeError(KinspectError):
    """A message's bytes do not fit its layout.

    `offset` counts from the start of the bytes handed to the decoder, `path` names the field
    (`topics[2].partitions[0].records`), `body` holds the fields read before the failure.
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
