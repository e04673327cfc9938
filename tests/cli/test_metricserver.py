"""Pages over HTTP, also for clients that are slow or hostile."""

import asyncio
import socket
import threading
import time
from collections import deque
from contextlib import ExitStack, contextmanager, suppress
from http import HTTPStatus
from itertools import chain

import pytest
from support.waiting import wait_until

from kinspect.cli.metricserver import (
    MOST_ANSWERED,
    MOST_ASKING,
    MOST_WAITING,
    REQUEST_BYTES,
    HttpAnswer,
    MetricServer,
)

LARGE = b"x" * (64 << 20)
PATIENCE = 0.5
ASKED_LATER = threading.Event()


async def small():
    return HttpAnswer(HTTPStatus.OK, b"hello\n")


async def large():
    return HttpAnswer(HTTPStatus.OK, LARGE)


async def later():
    ASKED_LATER.set()
    await asyncio.sleep(1)
    return HttpAnswer(HTTPStatus.OK, b"late\n")


async def never():
    await asyncio.sleep(3600)


@pytest.fixture
def port():
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    with MetricServer(listener, {"/small": small, "/large": large}, PATIENCE, PATIENCE):
        yield port
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


@contextmanager
def connected(port):
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        yield client


def rest(client):
    found = b""
    try:
        while data := client.recv(1 << 20):
            found += data
    except ConnectionResetError:
        pass
    return found


def asked(port, text):
    with connected(port) as client:
        client.sendall(text)
        return rest(client)


def test_a_page():
    listener = socket.create_server(("127.0.0.1", 0))
    with MetricServer(listener, {"/small": small}):
        answer = asked(listener.getsockname()[1], b"GET /small?x=1 HTTP/1.1\r\nHost: a\r\n\r\n")
    assert answer == (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 6\r\n"
        b"Connection: close\r\n\r\nhello\n"
    )


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /small HTTP/1.0", b"200 OK"),
        (b"GET / HTTP/1.1", b"404 Not Found"),
        (b"GET /../small HTTP/1.1", b"404 Not Found"),
        (b"POST /small HTTP/1.1", b"405 Method Not Allowed"),
        (b"GET /small", b"400 Bad Request"),
        (b"GET /small HTTP/2", b"400 Bad Request"),
        (b"\xff\xfe\x00", b"400 Bad Request"),
        (b"", b"400 Bad Request"),
    ],
)
def test_requests(port, request_line, status):
    answer = asked(port, request_line + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 " + status + b"\r\n")


def test_head_has_no_text(port):
    head, _, text = asked(port, b"HEAD /small HTTP/1.1\r\n\r\n").partition(b"\r\n\r\n")
    assert b"Content-Length: 6" in head
    assert text == b""


@pytest.mark.big
def test_a_large_page_arrives_whole():
    listener = socket.create_server(("127.0.0.1", 0))
    with MetricServer(listener, {"/large": large}, 60, 60):
        answer = asked(listener.getsockname()[1], b"GET /large HTTP/1.1\r\n\r\n")
    assert answer.endswith(b"\r\n\r\n" + LARGE)


@pytest.mark.parametrize(
    "text", [b"x" * (2 * REQUEST_BYTES), b"GET /small HTTP/1.1\r\n" + b"A: b\r\n" * 9999]
)
def test_a_request_that_is_too_long_is_not_read(port, text):
    with connected(port) as client:
        try:
            client.sendall(text)
        except OSError:
            return
        assert rest(client) == b""


@pytest.mark.parametrize("sent", [b"", b"GET /small HT"])
def test_who_says_too_little_is_left(port, sent):
    began = time.monotonic()
    with connected(port) as client:
        client.sendall(sent)
        assert asked(port, b"GET /small HTTP/1.1\r\n\r\n").endswith(b"hello\n")
        assert rest(client) == b""
        assert PATIENCE <= time.monotonic() - began < 5


def test_who_drips_is_left(port):
    with connected(port) as client, pytest.raises(OSError, match=r"reset|pipe"):  # noqa: PT012
        for _ in range(100):
            client.sendall(b"G")
            time.sleep(PATIENCE / 10)


def test_who_does_not_read_is_left(port):
    with connected(port) as client:
        client.sendall(b"GET /large HTTP/1.1\r\n\r\n")
        time.sleep(2 * PATIENCE)
        assert len(rest(client)) < len(LARGE)


@pytest.fixture
def patient():
    """The port of a server that waits for longer than a test takes."""
    listener = socket.create_server(("127.0.0.1", 0))
    pages = {"/small": small, "/later": later, "/never": never}
    with MetricServer(listener, pages, 600, 600):
        yield listener.getsockname()[1]


SILENT, GETS_NOTHING = b"GET /small HTTP/1.1\r\n", b"GET /never HTTP/1.1\r\n\r\n"


@pytest.mark.parametrize("sent", [SILENT, GETS_NOTHING])
def test_however_many_are_slow_who_asks_is_answered(patient, sent):
    with ExitStack() as stack:
        for _ in range(3):
            for _ in range(max(MOST_ASKING, MOST_ANSWERED)):
                stack.enter_context(connected(patient)).sendall(sent)
            time.sleep(0.1)
            assert asked(patient, b"GET /small HTTP/1.1\r\n\r\n").endswith(b"hello\n")


@pytest.mark.parametrize("before", [0, 500])
def test_a_request_that_has_come_is_read_however_many_come_behind_it(before):
    """All of them wait to be accepted at the same moment."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=MOST_WAITING)
    port = listener.getsockname()[1]
    with ExitStack() as stack:
        for _ in range(before):
            stack.enter_context(connected(port)).sendall(SILENT)
        asking = stack.enter_context(connected(port))
        asking.sendall(b"GET /small HTTP/1.1\r\n\r\n")
        for _ in range(900 - before):
            stack.enter_context(connected(port)).sendall(SILENT)
        with MetricServer(listener, {"/small": small}, 600, 600):
            assert rest(asking).endswith(b"hello\n")


@pytest.mark.big
def test_a_thousand_half_requests_keep_nobody_out(patient):
    """Those that were left are replaced at once, by four who do nothing else."""
    ended, kept = threading.Event(), [deque(), deque(), deque(), deque()]

    def ask_by_halves(clients):
        while not ended.is_set():
            with suppress(OSError):
                clients.append(socket.create_connection(("127.0.0.1", patient), timeout=10))
                clients[-1].sendall(SILENT)
            if len(clients) > 250:
                clients.popleft().close()

    threads = [threading.Thread(target=ask_by_halves, args=(clients,)) for clients in kept]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: all(len(clients) >= 250 for clients in kept))
        answers = [asked(patient, b"GET /small HTTP/1.1\r\n\r\n") for _ in range(10)]
        # Who waits for a core between connecting and asking may be replaced, too.
        assert sum(answer.endswith(b"hello\n") for answer in answers) > 5
    finally:
        ended.set()
        for thread in threads:
            thread.join()
        for client in chain(*kept):
            client.close()


def test_who_has_asked_comes_before_who_has_not(patient):
    with ExitStack() as stack:
        reading = stack.enter_context(connected(patient))
        reading.sendall(b"GET /later HTTP/1.1\r\n\r\n")
        ASKED_LATER.wait()
        slow = [stack.enter_context(connected(patient)) for _ in range(2 * MOST_ASKING)]
        # The first ones gave way, the last ones are still there.
        assert rest(slow[0]) == b""
        slow[-1].sendall(b"GET /small HTTP/1.1\r\n\r\n")
        assert rest(slow[-1]).endswith(b"hello\n")
        assert rest(reading).endswith(b"late\n")


def test_it_ends_at_once_whoever_is_connected():
    listener = socket.create_server(("127.0.0.1", 0))
    with ExitStack() as stack:
        with MetricServer(listener, {}):
            for _ in range(5):
                stack.enter_context(connected(listener.getsockname()[1]))
            time.sleep(0.1)
            began = time.monotonic()
        assert time.monotonic() - began < 2
