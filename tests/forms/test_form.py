"""The form under test: `make compiled` tests the compiled one, and nothing may fall back to the source."""

import importlib
import os
import pkgutil
from pathlib import Path

import kinspect
from kinspect.cli import main
from kinspect.form import COMPILED

SOURCE = Path(__file__).parents[2] / "kinspect"
WANTED = os.environ.get("KINSPECT_FORM", "interpreted")

# Hot, or never: a part that falls out of the list in setup.py would go unnoticed.
HOT = [
    "model",
    "pipeline",
    "link.segments",
    "tcp.reassembly",
    "kafka.connection.framing",
    "kafka.connection.session",
    "protocol.walker",
]


def test_the_form_is_the_one_asked_for():
    assert ("compiled" if COMPILED else "interpreted") == WANTED
    for name in HOT:
        module = importlib.import_module(f"kinspect.{name}")
        assert module.__file__.endswith(".py") is not COMPILED, name


def test_the_compiled_form_is_not_the_source_tree():
    assert (Path(kinspect.__file__).parent == SOURCE) is not COMPILED


def test_no_module_is_missing():
    of_source = {module.name for module in pkgutil.walk_packages([str(SOURCE)], "kinspect.")}
    found = {module.name for module in pkgutil.walk_packages(kinspect.__path__, "kinspect.")}
    assert of_source == found


def test_the_version_tells_the_form(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"kinspect {kinspect.__version__} ({WANTED})\n"
