"""Messages to a service manager, through a real socket."""

import os
import socket
import time

import pytest

from kinspect.cli.sdnotify import READY, Notifier


def listening(address):
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(address)
    manager.settimeout(10)
    return manager


@pytest.mark.parametrize("abstract", [False, True])
def test_a_message_arrives(tmp_path, abstract):
    name = f"kinspect-test-{os.getpid()}"
    path = str(tmp_path / "notify")
    environment = {"NOTIFY_SOCKET": f"@{name}" if abstract else path, "OTHER": "stays"}
    with listening(f"\0{name}" if abstract else path) as manager:
        notifier = Notifier(environment)
        assert environment == {"OTHER": "stays"}
        assert notifier.active
        notifier.send(READY, "STATUS=well")
        assert manager.recv(1000) == b"READY=1\nSTATUS=well"
        before = time.monotonic_ns() // 1000
        notifier.reloading()
        first, second = manager.recv(1000).decode().split("\n")
        assert first == "RELOADING=1"
        assert before <= int(second.removeprefix("MONOTONIC_USEC=")) <= time.monotonic_ns() // 1000
        notifier.close()
        notifier.send(READY)
        assert not notifier.active


def test_nobody_who_wants_to_know():
    notifier = Notifier({})
    assert not notifier.active
    notifier.send(READY)
    notifier.close()


def test_a_manager_that_went_away_or_does_not_listen_stops_nothing(tmp_path):
    path = str(tmp_path / "notify")
    manager = listening(path)
    notifier = Notifier({"NOTIFY_SOCKET": path})
    for _ in range(10_000):
        notifier.send(READY)
    manager.close()
    notifier.send(READY)
    notifier.close()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"WATCHDOG_USEC": "30000000"}, 30_000_000_000),
        ({"WATCHDOG_USEC": "5000000", "WATCHDOG_PID": str(os.getpid())}, 5_000_000_000),
        ({"WATCHDOG_USEC": "5000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({}, None),
    ],
)
def test_the_time_within_which_a_sign_of_life_is_due(given, expected):
    assert Notifier({**given}).watchdog_ns == expected
