"""What the tests of packages share: built once."""

import pytest
from fresh import run, sources
from newest_python import newest_python


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The folder with the sdist, and the wheel that is built of it: without a compiler."""
    folder = tmp_path_factory.mktemp("built")
    source = sources(folder / "source")
    run(
        "pyproject-build",
        "--no-isolation",
        "--outdir",
        folder / "dist",
        source,
        cwd=folder,
        env={"KINSPECT_COMPILE": "0"},
    )
    return folder / "dist"


@pytest.fixture(scope="session")
def newest(tmp_path_factory):
    """The newest Python, which Debian has in its testing suite."""
    return newest_python(tmp_path_factory.mktemp("newest") / "system")
