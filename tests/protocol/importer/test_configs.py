"""The table of configs, and the tool that merges those of releases into it."""

from pathlib import Path

from broker.configs import merged, text

from kinspect.protocol import schema
from kinspect.protocol.schema import Config


def test_the_table_is_as_the_tool_writes_it() -> None:
    assert Path(schema.TABLE, "configs.txt").read_text("utf-8") == text(schema.configs())
    assert {kind for one in schema.configs().values() for kind in one.kinds} == {
        *("broker", "topic", "client-metrics", "group", "remote-log-metadata"),
    }
    known = schema.releases()
    assert all(one.first in known and one.last in known for one in schema.configs().values())


def test_releases_merge_in_any_order() -> None:
    old = Config("a", ("topic",), "0.11.0.0", "0.11.0.0", True)
    new = Config("a", ("broker",), "3.10.0", "3.10.0", False)
    assert (
        merged(old, new) == merged(new, old) == Config("a", ("broker", "topic"), "0.11.0.0", "3.10.0", True)
    )
    assert merged(new, Config("a", ("broker",), "3.9.0", "3.9.0", False)).first == "3.9.0"
    assert text({"a": merged(old, new)}).endswith("\na broker,topic 0.11.0.0 3.10.0 password\n")
