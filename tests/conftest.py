"""Settings of all tests; makes `support`, what several test packages share, importable."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

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
