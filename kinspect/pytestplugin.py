"""The pytest plugin: the fixture `kafka_wire`. It loads nothing of kinspect before a test asks for it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pytest

if TYPE_CHECKING:
    from kinspect.wiretest.expectations import Wire

FIXTURE = "kafka_wire"
WIRE = pytest.StashKey["Wire"]()
OPTION = "--kafka-wire-dir"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for what is kept."""
    parser.getgroup("kinspect").addoption(
        OPTION, metavar="DIR", help=f"Keep in DIR what {FIXTURE} recorded of tests that failed."
    )


@pytest.fixture
def kafka_wire(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Wire]:
    """What clients of Kafka say in this test, with expectations that are checked at its end."""
    from kinspect.wiretest.expectations import Wire

    request.node.stash[WIRE] = wire = Wire(tmp_path)
    yield wire
    wire.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Check what the test expects once it has run; say where the capture is if it fails."""
    try:
        result = yield
        # A test may ask for the fixture while it runs.
        if wire := item.stash.get(WIRE, None):
            _check(wire)
        return result
    except pytest.skip.Exception:
        raise
    except BaseException:
        wire = item.stash.get(WIRE, None)
        if wire and (told := _told(item, wire)):
            item.add_report_section("call", FIXTURE, told)
        raise


def _check(wire: Wire) -> None:
    from kinspect.errors import KinspectError

    told = ""
    try:
        wire.check()
    except (AssertionError, KinspectError) as error:
        told = str(error)
    if told:
        pytest.fail(told, pytrace=False)


def _told(item: pytest.Item, wire: Wire) -> str:
    """Where its captures stay."""
    from kinspect.errors import KinspectError

    try:
        return "\n".join(f"capture: {_kept(item, path)}" for path in wire.kept())
    except (KinspectError, OSError) as error:
        return str(error)


def _kept(item: pytest.Item, path: str) -> str:
    """Where the capture stays: copied to the folder that is asked for."""
    folder = item.config.getoption(OPTION)
    if folder is None:
        return path
    Path(folder).mkdir(parents=True, exist_ok=True)
    # Tests whose names differ in other characters, or in their beginnings, have different files.
    name = re.sub(r"[^\w.-]+", "_", item.nodeid)[-150:]
    number = crc32(item.nodeid.encode())
    return str(shutil.copy(path, Path(folder) / f"{name}-{number:08x}.{Path(path).name}"))
