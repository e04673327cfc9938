"""The stream of a command's output."""

import os
import threading
import time

from kinspect.cli.outfile import Output, TimedFile


def test_a_slow_reader_is_timed_while_the_write_waits_and_after():
    told, tell = os.pipe()
    output = Output(TimedFile(tell, closefd=True), "utf-8", "strict")
    assert output.file.blocked_ns == 0

    def write():
        output.write("x" * 1_000_000)
        output.flush()

    writing = threading.Thread(target=write)
    writing.start()
    time.sleep(0.1)
    meanwhile = output.file.blocked_ns
    assert meanwhile > 50_000_000
    left = 1_000_000
    while left:
        left -= len(os.read(told, left))
    writing.join()
    after = output.file.blocked_ns
    assert after >= meanwhile
    time.sleep(0.01)
    assert output.file.blocked_ns == after
    output.close()
    os.close(told)


def test_a_file_is_closed_with_its_stream_and_standard_output_is_not(tmp_path):
    for closefd in (True, False):
        descriptor = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
        with Output(TimedFile(descriptor, closefd), "utf-8", "strict") as output:
            output.write("é\n")
        try:
            os.fstat(descriptor)
            is_open = True
        except OSError:
            is_open = False
        assert is_open is not closefd
        if is_open:
            os.close(descriptor)
    assert (tmp_path / "out").read_bytes() == "é\n".encode()
