"""setuptools' build backend, which chooses between kinspect's compiled form and the interpreted one.

A wheel is compiled where a C compiler works, and only then asks for mypyc; an editable install never is.
`KINSPECT_COMPILE` overrules: `0` compiles nothing, `1` fails where it cannot compile. `setup.py` follows the choice.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

SWITCH = "KINSPECT_COMPILE"
MYPYC = "mypy[mypyc]>=2.4,<2.5"


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    requires: list[str] = build_meta.get_requires_for_build_wheel(config_settings)
    return [*requires, MYPYC] if _wish() else requires


def build_wheel(directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    # Setuptools would put leftovers of an earlier build into the wheel, such as a module that is compiled no more.
    for left in Path("build").glob("lib*"):
        shutil.rmtree(left)
    arguments = directory, config_settings, metadata_directory
    must = os.environ.get(SWITCH) == "1"
    if _wish():
        try:
            with _switched("1"):
                return str(build_meta.build_wheel(*arguments))
        # mypyc and setuptools exit by SystemExit.
        except (Exception, SystemExit) as error:
            if must:
                raise
            print(f"kinspect: not compiled, will run interpreted: {error!r}", file=sys.stderr)
    with _switched("0"):
        return str(build_meta.build_wheel(*arguments))


def build_editable(directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    with _switched("0"):
        return str(build_meta.build_editable(directory, config_settings, metadata_directory))


def _wish() -> bool:
    asked = os.environ.get(SWITCH)
    return asked == "1" or (asked != "0" and _compiler_works())


@contextmanager
def _switched(value: str) -> Iterator[None]:
    before = os.environ.get(SWITCH)
    os.environ[SWITCH] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[SWITCH]
        else:
            os.environ[SWITCH] = before


def _compiler_works() -> bool:
    """True if the compiler of extension modules and Python's headers are there."""
    from distutils.ccompiler import new_compiler  # setuptools' own
    from distutils.sysconfig import customize_compiler

    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "probe.c"
        source.write_text("#include <Python.h>\n")
        try:
            compiler = new_compiler()
            customize_compiler(compiler)
            compiler.compile([str(source)], output_dir=folder, include_dirs=[sysconfig.get_path("include")])
        except Exception:  # each compiler and platform has its own
            return False
    return True
