"""The compiled wheel that `make wheels` put into dist/: where it may be installed, and what it reads."""

import sys

import pytest
from console_blocks import ROOT
from fresh import CAPTURE, Fresh

from kinspect import __version__
from kinspect.answers import answers

pytestmark = pytest.mark.tools
TAG = f"cp{sys.version_info.major}{sys.version_info.minor}"
LINES = ("read", "--quiet", "--records", "--payload", "text")


def test_a_compiled_wheel_reads_as_the_source_does(tmp_path, kinspect):
    found = [*(ROOT / "dist").glob(f"kinspect-{__version__}-{TAG}-{TAG}-manylinux*.whl")]
    assert len(found) == 1, "run `make wheels`"
    environment = Fresh(sys.executable, tmp_path / "fresh")
    environment.install(found[0])
    assert environment.kinspect("--version").stdout == f"kinspect {__version__} (compiled)\n"
    for words in (LINES, *((name, "--quiet", "--format", "json") for name in answers())):
        here = kinspect(*words, CAPTURE).out
        assert here.count("\n") > 50 or words != LINES
        assert environment.kinspect(*words, CAPTURE).stdout == here
