"""Settings of all tests."""

import json
import signal
from importlib import import_module
from types import SimpleNamespace

import pytest
from hypothesis import settings
from support.kept import Kept

# A busy machine is no failure, and a test run that cannot be repeated helps nobody.
settings.register_profile("kinspect", deadline=None, derandomize=True)
settings.load_profile("kinspect")


@pytest.fixture(autouse=True)
def _handlers_stay():
    """An explorer in this process takes signals, which processes of the next test must not inherit."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def payload_libraries():
    """What each process that decodes payloads would load for itself, loaded once: these are forked."""
    from kinspect.payloads.payloaddecoder import MODULES

    for name in MODULES.values():
        import_module(name)


@pytest.fixture(scope="session")
def kept(tmp_path_factory, worker_id):
    """What is made once for all workers of this run."""
    own = tmp_path_factory.getbasetemp()
    return Kept((own if worker_id == "master" else own.parent) / "kept")


@pytest.fixture
def kinspect(capfdbinary):
    """Runs the command in this process."""
    from kinspect.cli import main

    def run(*arguments):
        capfdbinary.readouterr()
        status = main([str(argument) for argument in arguments])
        out, err = capfdbinary.readouterr()
        return SimpleNamespace(status=status, out=out.decode(), err=err.decode())

    return run


@pytest.fixture
def every_line(kinspect, kept):
    """All lines that `kinspect read` prints of a capture of the repository, with further options."""

    def lines(*arguments):
        def text():
            return kinspect("read", "-q", "--emit", "exchange,connection,gap,summary", *arguments).out

        return [json.loads(line) for line in kept.text(text, "every line", *arguments).splitlines()]

    return lines
