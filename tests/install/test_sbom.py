"""Bills of materials: a component for each package that pip installs, and no other."""

import json
import sys

import pytest
from fresh import Fresh, normal
from sbom import write

from kinspect import __version__

pytestmark = pytest.mark.tools


@pytest.mark.parametrize("extra", [None, "explore"])
def test_components_are_what_pip_installs(tmp_path, built, extra):
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    text = write(extra, tmp_path).read_text("utf-8")
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert str(tmp_path) not in text
    bill = json.loads(text)
    told = bill["metadata"]["component"]
    assert (told["name"], told["version"]) == ("kinspect", __version__)

    environment = Fresh(sys.executable, tmp_path / "fresh")
    environment.install(built / f"kinspect-{__version__}-py3-none-any.whl", f"[{extra}]" if extra else "")
    components = {(normal(one["name"]), one["version"]) for one in bill["components"]}
    assert components == environment.packages() - {("kinspect", __version__)}
