"""The wheel and the sdist in fresh environments, of this Python and the newest, with what everybody needs alone."""

import gzip
import sys
import tarfile
import zipfile

import pytest
from capture_files import COMPRESS
from fresh import CAPTURE, Fresh
from newest_python import NEWEST

from kinspect import __version__
from kinspect.extras import EXTRAS

pytestmark = pytest.mark.tools
WHEEL, SDIST = f"kinspect-{__version__}-py3-none-any.whl", f"kinspect-{__version__}.tar.gz"
OPTIONAL = {package for modules in EXTRAS.values() for package in modules.values()} - {"lz4"}
LINES = ("read", "--quiet", "--records", "--payload", "text")
IN_PYTHON = f"import kinspect; print(sum(1 for _ in kinspect.read({str(CAPTURE)!r})))"


def test_the_sdist_holds_what_the_wheel_does(built):
    assert {path.name for path in built.iterdir()} == {WHEEL, SDIST}
    with tarfile.open(built / SDIST) as sdist, zipfile.ZipFile(built / WHEEL) as wheel:
        source = {name.partition("/")[2] for name in sdist.getnames()}
        installed = {name for name in wheel.namelist() if ".dist-info/" not in name and ".data/" not in name}
    assert installed
    assert not installed - source
    assert {"LICENSE", "README.md", "setup.py", "tools/build_backend.py", "docs/man/kinspect.1"} <= source


@pytest.mark.parametrize(("which", "package"), [("running", WHEEL), ("newest", WHEEL), ("newest", SDIST)])
def test_it_runs_in_a_fresh_environment(tmp_path, built, newest, kinspect, which, package):
    environment = Fresh(newest if which == "newest" else sys.executable, tmp_path / "fresh")
    environment.install(built / package)
    installed = {name for name, _ in environment.packages()}
    assert installed >= {"kinspect", "click", "rich", "scapy", "crc32c"}
    assert not installed & OPTIONAL

    assert environment.kinspect("--version").stdout == f"kinspect {__version__} (interpreted)\n"
    if which == "newest":
        assert (
            environment.run("-c", "import sys; print(*sys.version_info[:2], sep='.')").stdout == f"{NEWEST}\n"
        )
    here = kinspect(*LINES, CAPTURE).out
    assert here.count("\n") > 50
    assert environment.kinspect(*LINES, CAPTURE).stdout == here
    assert environment.run("-c", IN_PYTHON).stdout == f"{here.count(chr(10))}\n"
    assert (environment.folder / "share" / "man" / "man1" / "kinspect.1").stat().st_size > 10_000

    for codec in ("zstd", "lz4"):
        packed = tmp_path / f"x.{codec}"
        packed.write_bytes(COMPRESS[codec](gzip.decompress(CAPTURE.read_bytes())))
        read = environment.kinspect(*LINES, packed, check=False)
        if codec == "lz4" and which == "newest":
            assert (read.returncode, read.stdout) == (1, "")
            assert read.stderr == (
                f"kinspect: {packed}: lz4 data needs lz4, which is not installed: pip install 'kinspect[lz4]'\n"
            )
        else:
            assert (read.returncode, read.stdout) == (0, here.replace(str(CAPTURE), str(packed)))

    explorer = environment.kinspect("explore", CAPTURE, check=False)
    assert explorer.returncode == 2
    assert explorer.stderr == (
        "kinspect: the explorer needs textual, which is not installed: pip install 'kinspect[explore]'\n"
    )


def test_the_pytest_plugin_is_there_once_it_is_installed(tmp_path, built):
    environment = Fresh(sys.executable, tmp_path / "fresh")
    environment.install(built / WHEEL, "[pytest]")
    source = environment.folder / "test_it.py"
    source.write_text(
        f"def test_it(kafka_wire):\n    kafka_wire.read({str(CAPTURE)!r})\n    kafka_wire.expect(api='Metadata')\n"
    )
    assert "1 passed" in environment.run("-W", "error", "-m", "pytest", "-q", source).stdout
