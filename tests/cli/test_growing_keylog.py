"""What is said of a key log that a client is still writing."""

from types import SimpleNamespace

import pytest

from kinspect.cli.run import Run
from kinspect.pipeline import Inspector

SECRET = b"CLIENT_RANDOM " + b"11" * 32 + b" " + b"22" * 48 + b"\n"
UNUSED = b"EXPORTER_SECRET " + b"11" * 32 + b" " + b"33" * 32 + b"\n"


@pytest.mark.parametrize(
    ("texts", "lines"),
    [([SECRET, UNUSED, SECRET, b""], 0), ([b"no key log\n", b"nor this\n"], 1), ([b"", UNUSED, SECRET], 1)],
)
def test_that_nothing_is_in_it_is_said_of_its_beginning(capsys, texts, lines):
    following = iter(texts)
    options = SimpleNamespace(
        filter=SimpleNamespace(active=False, unknown={}),
        format_name="none",
        keylog=SimpleNamespace(more=lambda: next(following)),
        values={"keylog": "keys"},
    )
    run = Run(options, SimpleNamespace(secrets=[]), Inspector(), None, None)
    for _ in texts:
        run._add_secrets()
    assert capsys.readouterr().err.count("keys: no TLS secrets in it") == lines
