"""What a release defines beside messages: configs and error codes, merged into the table."""

from pathlib import Path

import pytest
from broker import newest
from broker.artifacts import RELEASE
from broker.release import NEWEST, configs_text, defined, jars, merged, with_advice, with_configs, with_errors
from console_blocks import ROOT

from kinspect.protocol import schema
from kinspect.protocol.importer.__main__ import main
from kinspect.protocol.schema import Config

TABLE = Path(schema.TABLE)


def test_the_configs_are_as_the_tool_writes_them() -> None:
    assert (TABLE / "configs.txt").read_text("utf-8") == configs_text(schema.configs())
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
    printed = "a log line\nconfig broker INT a\nconfig topic PASSWORD b\n"
    gone = Config("c", ("group",), "0.10.1.0", "0.11.0.0", False)
    title, *rows = with_configs({"a": old, "c": gone}, "3.10.0", printed).splitlines()
    assert title.startswith("# configs up to 3.10.0: ")
    assert rows == [
        "a broker,topic 0.11.0.0 - password",
        "b topic 3.10.0 - password",
        "c group 0.10.1.0 0.11.0.0",
    ]


def test_new_error_codes_are_rows_whose_meaning_is_to_be_told(capsys: pytest.CaptureFixture[str]) -> None:
    known = "# code\n0 NONE final since=0.8.0\n1 NOW retriable since=0.8.0 old=BEFORE:0.9\n"
    printed = "error 0 NONE final\nerror 1 BEFORE final\nerror 2 NEW retriable\n"
    errors = with_errors(known, "4.5.0", printed)
    assert errors == known + "2 NEW retriable since=4.5\n"
    assert capsys.readouterr().out == ""
    with_errors(known, "4.5.0", "error 1 LATER retriable\n")
    assert capsys.readouterr().out.startswith("errors.txt is to tell what 4.5.0 means by 1 LATER, retriable")
    advice = with_advice("# title\n0 NONE\n  meaning: None.\n1 NOW\n  meaning: Now.\n", errors)
    assert advice.endswith("1 NOW\n  meaning: Now.\n2 NEW\n  meaning: ?\n  advice: ?\n  source: ?\n")
    assert capsys.readouterr().out == "advice.txt is to tell what 2 NEW means.\n"


def test_the_readme_has_one_place_for_the_newest_release() -> None:
    assert NEWEST.findall((ROOT / "README.md").read_text("utf-8")) == [[*schema.releases()][-1]]


@pytest.mark.tools
def test_the_newest_release_brings_nothing_new(capsys: pytest.CaptureFixture[str]) -> None:
    found = sorted(Path(jars(RELEASE)).parent.glob("kafka-*.jar"))
    assert main(["--check", *map(str, found)]) == 0
    printed = defined(RELEASE)
    errors, advice = ((TABLE / name).read_text("utf-8") for name in ("errors.txt", "advice.txt"))
    assert with_configs(schema.configs(), RELEASE, printed) == (TABLE / "configs.txt").read_text("utf-8")
    assert with_errors(errors, RELEASE, printed) == errors
    assert with_advice(advice, errors) == advice
    assert capsys.readouterr().out == ""


MAVEN = """#!/bin/sh
for given; do case $given in -DoutputFile=*) to=${given#*=} ;; esac; done
printf '%s\n' 'kinspect:broker:jar:1' '   \\- org.apache.kafka:kafka-clients:jar:'"$RELEASE"':compile' > "$to"
"""


@pytest.mark.parametrize("release", ["4.10.0", RELEASE, "none"])
def test_a_newer_release_is_told(tmp_path, monkeypatch, capsys, release: str) -> None:
    """Maven itself is asked by `make newest-kafka`."""
    stand_in = tmp_path / "mvn"
    stand_in.write_text(MAVEN)
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("RELEASE", release)
    monkeypatch.setattr("broker.artifacts.BUILD", tmp_path)
    status = newest.main()
    told, error = capsys.readouterr()
    assert (status, told) == {"4.10.0": (0, "4.10.0\n"), RELEASE: (0, ""), "none": (2, "")}[release]
    assert ("not a release of Apache Kafka" in error) == (release == "none")
