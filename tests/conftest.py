"""Settings of all tests."""

from types import SimpleNamespace

import pytest
from hypothesis import settings

# A busy machine is no failure, and a test run that cannot be repeated helps nobody.
settings.register_profile("kinspect", deadline=None, derandomize=True)
settings.load_profile("kinspect")


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
