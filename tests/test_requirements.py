"""What is installed here is pinned, hashed, and what pyproject.toml asks for; tests named in the Makefile are there."""

import re
import subprocess
import tomllib
from pathlib import Path

import build_backend
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
LOCKS = {name: extras.split() for name, extras in re.findall(r"^(\w+)_EXTRAS := (.+)$", MAKEFILE, re.M)}
OF_THE_PROJECT = "kinspect (pyproject.toml"
PINNED = re.compile(
    r"^(?P<pin>[^\s#][^\\\n]*?)(?P<hashes>(?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n(?P<via>(?:    #.*\n)+)",
    re.M,
)
SYSTEMS = [
    {
        "sys_platform": system,
        "platform_system": name,
        "python_version": python,
        "python_full_version": f"{python}.0",
    }
    for system, name in (("linux", "Linux"), ("darwin", "Darwin"))
    for python in ("3.11", "3.12", "3.13", "3.14")
]


def asked(extras):
    """What the project, its build and these extras ask for, those of other extras among it."""
    found = map(Requirement, (*PROJECT["project"]["dependencies"], *PROJECT["dependency-groups"]["build"]))
    for extra in extras:
        yield from asked_by(extra)
    yield from found


def asked_by(extra):
    for text in PROJECT["project"]["optional-dependencies"][extra]:
        wanted = Requirement(text)
        if wanted.name == "kinspect":
            for other in wanted.extras:
                yield from asked_by(other)
        else:
            yield wanted


def locked(name):
    return (ROOT / "requirements" / f"{name}.txt").read_text("utf-8")


def pins(text):
    """By name, what is pinned, and whether the project asks for it."""
    found = {}
    for match in PINNED.finditer(text):
        pin = Requirement(match["pin"])
        found.setdefault(canonicalize_name(pin.name), []).append((pin, OF_THE_PROJECT in match["via"]))
    return found


def version(pin):
    (only,) = pin.specifier
    assert only.operator == "=="
    return only.version


@pytest.mark.parametrize("name", [*LOCKS, "oldest"])
def test_a_lock_is_in_step_with_the_project(name):
    found = pins(locked(name))
    wanted = [*asked(LOCKS.get(name, ["dev"]))]
    for each in wanted:
        for system in SYSTEMS:
            if each.marker is not None and not each.marker.evaluate(system):
                continue
            there = [
                pin
                for pin, _ in found.get(canonicalize_name(each.name), ())
                if pin.marker is None or pin.marker.evaluate(system)
            ]
            assert len(there) == 1, f"{each}: run `make lock`"
            assert each.specifier.contains(version(there[0]), prereleases=True), f"{each}: run `make lock`"
    own = {name for name, each in found.items() if any(direct for _, direct in each)}
    assert own == {canonicalize_name(each.name) for each in wanted}, "run `make lock`"


@pytest.mark.parametrize("name", [*LOCKS, "oldest"])
def test_nothing_else_stands_in_a_lock(name):
    """No address: where packages come from is the user's choice; the hashes are the same everywhere."""
    text = locked(name)
    assert PINNED.sub("", text) == ""
    assert "://" not in text


def test_all_that_is_installed_is_locked():
    assert {path.stem for path in (ROOT / "requirements").iterdir()} == {*LOCKS, "oldest"}
    assert set(re.findall(r"\bpip \w+", MAKEFILE)) == {"pip install", "pip wheel", "pip compile"}
    assert MAKEFILE.count("pip install ") == 2, "LOCKED and THIS are what installs"


def test_the_locks_have_the_same_versions():
    everything = {name: pins(locked(name)) for name in LOCKS}
    for name, found in everything.items():
        for package in found.keys() & everything["dev"].keys():
            versions = [{version(pin) for pin, _ in each[package]} for each in (found, everything["dev"])]
            assert versions[0] == versions[1], f"{package} of {name}: run `make lock`"


def test_the_compiler_is_the_one_that_is_asked_for():
    ((mypy, _),) = pins(locked("dev"))["mypy"]
    assert Requirement(build_backend.MYPYC).specifier.contains(version(mypy))


def test_tests_that_the_makefile_names_are_there():
    # pytest runs nothing at all where one of the files it is given is missing.
    command = ["make", "--dry-run", "--always-make", "test-oldest", "compiled"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    named = re.findall(r"\btests/[\w./-]+", printed)
    assert len(named) > 20
    assert [name for name in named if not (ROOT / name).exists()] == []
