"""`Live` where it is interrupted, or never begins; it needs no right without an interface."""

import pytest

from kinspect.capture.captureworker import CaptureLimits
from kinspect.capture.livecapture import CaptureSettings, Live


def test_nothing_is_read_behind_half_a_message(monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    capture = Live([], CaptureSettings(), CaptureLimits())
    capture.start()
    monkeypatch.setattr(capture._inbox, "message", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(iter(capture))
    capture.close()
    assert capture.worker is None


def test_what_never_began_can_be_closed():
    capture = Live([], CaptureSettings(), CaptureLimits())
    assert list(capture) == []
    capture.stop()
    capture.close()
    capture.close()
    assert capture.status.errors == []
