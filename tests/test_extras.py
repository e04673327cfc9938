"""Optional libraries: the table of extras, and what is said where one is not installed."""

import re
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from kinspect import extras
from kinspect.errors import MissingLibraryError

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
OPTIONAL = PROJECT["optional-dependencies"]


def packages(extra):
    """Names of the packages that an extra installs, those of extras that it names among them."""
    found = set()
    for requirement in OPTIONAL[extra]:
        name, others = re.match(r"([\w.-]+)(?:\[([\w,]+)\])?", requirement).groups()
        found |= {name} if name != "kinspect" else {p for other in others.split(",") for p in packages(other)}
    return found


@pytest.mark.parametrize("extra", extras.EXTRAS)
def test_an_extra_is_what_the_project_file_names(extra):
    assert packages(extra) == set(extras.EXTRAS[extra].values())


def test_all_is_every_extra():
    assert packages("all") == {package for modules in extras.EXTRAS.values() for package in modules.values()}


def test_no_package_of_an_extra_is_needed_by_everybody():
    base = {re.match(r"[\w.-]+", requirement)[0] for requirement in PROJECT["dependencies"]}
    assert base & packages("all") == {"lz4"}, "which everybody has where there is a wheel of it"


@pytest.mark.parametrize("extra", sorted(extras.EXTRAS.keys() - {"spark"}))
def test_modules_are_those_of_the_packages(extra):
    """They are installed here, and are looked up without a load."""
    extras.need(extra, "this test")
    assert all(find_spec(module) is not None for module in extras.EXTRAS[extra])


@pytest.mark.parametrize(
    ("extra", "missing", "line"),
    [
        (
            "metrics",
            {"prometheus_client"},
            "--metrics needs prometheus-client, which is not installed: pip install 'kinspect[metrics]'",
        ),
        (
            "spark",
            {"pyspark", "pandas", "pyarrow"},
            "--metrics needs pyspark, pandas and pyarrow, which are not installed: pip install 'kinspect[spark]'",
        ),
    ],
)
def test_what_is_missing_is_told_in_one_line(monkeypatch, extra, missing, line):
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name in missing else object())
    with pytest.raises(MissingLibraryError) as error:
        extras.need(extra, "--metrics")
    assert str(error.value) == line
    assert error.value.status == 2


def test_what_a_library_lies_in_may_be_missing_too(monkeypatch):
    """As where nothing else of the namespace `opentelemetry` is installed."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "opentelemetry"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(MissingLibraryError, match="needs opentelemetry-sdk and opentelemetry-exporter"):
        extras.need("otel", "--otlp")
