"""The compiled form: what runs for every packet or message, through mypyc. Else the same source is interpreted."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from glob import glob
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

COMPILED = (
    "kinspect/form.py",
    "kinspect/jsontext.py",
    "kinspect/model.py",
    "kinspect/pipeline.py",
    "kinspect/output/jsonl.py",
    *(
        f"kinspect/{package}/*.py"
        for package in ("capture", "kafka", "kafka/*", "link", "protocol", "records", "tcp")
    ),
)
INTERPRETED = {
    # They take what users give them, as codec.py does.
    *(f"kinspect/capture/{name}.py" for name in ("pythoninput", "scapypackets")),
    *(
        f"kinspect/capture/{name}.py" for name in ("keylogfile", "optionfile", "hostfiles", "kubernetesnames")
    ),  # asked once a block, and once a run
    "kinspect/capture/frameoffsets.py",  # asked once an exchange that somebody looks at
    # They wait for packets, or for the system.
    *(
        f"kinspect/capture/{name}.py"
        for name in (
            "bpf",
            "handover",
            "livecapture",
            "privileges",
            "ring",
            "rotation",
            "save",
            "sender",
            "source",
            "streamedcapture",
            "captureworker",
        )
    ),
    "kinspect/link/addedlayers.py",  # calls what other packages have
    "kinspect/records/recordset.py",  # a subclass of `list` cannot be compiled
    "kinspect/protocol/codec.py",  # takes what users give it: compiled code would refuse types before it could
}

# What kinspect needs when it runs is Any here, whether it is installed or not. `make lint` checks with its types,
# and what it remembers of them must not be found.
CHECKS = ("--config-file=", "--ignore-missing-imports", "--no-site-packages", "--cache-dir=build/mypyc")


def modules() -> list[str]:
    found = {path.replace(os.sep, "/") for pattern in COMPILED for path in glob(pattern)}
    return sorted(path for path in found - INTERPRETED if not path.endswith("__init__.py"))


def extensions() -> list[Extension]:
    # tools/build_backend.py sets the variable; what only asks for metadata must not wait for a compilation.
    if os.environ.get("KINSPECT_COMPILE") != "1" or "bdist_wheel" not in sys.argv:
        return []
    from mypyc.build import mypycify

    return mypycify(
        [*CHECKS, *modules()],
        opt_level=os.environ.get("KINSPECT_OPT_LEVEL", "2"),
        debug_level="0",
        multi_file=True,  # one file of C would take two gigabytes to compile, on one core
        group_name="kinspect",
    )


class BuildInParallel(build_ext):
    """The files of an extension are compiled on all cores: they are a hundred, and setuptools takes one at a time."""

    def build_extension(self, ext: Extension) -> None:
        compile_in_order = self.compiler.compile

        def compile_all(sources: list[str], **options: Any) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count()) as cores:
                compiled = cores.map(lambda source: compile_in_order([source], **options), sources)
                return [name for names in compiled for name in names]

        self.compiler.compile = compile_all
        super().build_extension(ext)


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildInParallel})
