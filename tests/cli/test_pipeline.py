"""`kinspect pipeline`: its options, and what it says where Spark cannot run."""

import signal
from types import SimpleNamespace

import pytest

from kinspect import extras
from kinspect.cli import main
from kinspect.cli import pipelinecommand as command
from kinspect.errors import KinspectError
from kinspect.spark import sparksession

RUN = ["pipeline", "run", "x.pcap", "--out", "tables"]
STREAM = ["pipeline", "stream", "captures", "--out", "tables"]


@pytest.mark.parametrize(
    ("missing", "java", "status", "line"),
    [
        (
            {"pyspark", "pyarrow"},
            17,
            2,
            "kinspect: the pipeline needs pyspark and pyarrow, which are not installed:"
            " pip install 'kinspect[spark]'\n",
        ),
        (
            {"google.protobuf"},
            17,
            2,
            "kinspect: the pipeline needs protobuf, which is not installed: pip install 'kinspect[spark]'\n",
        ),
        (
            set(),
            None,
            1,
            "kinspect: the pipeline needs Java 17 or later, there is none: install one, or let JAVA_HOME name it\n",
        ),
        (
            set(),
            11,
            1,
            "kinspect: the pipeline needs Java 17 or later, found 11: install one, or let JAVA_HOME name it\n",
        ),
    ],
)
@pytest.mark.parametrize("arguments", [RUN, STREAM], ids=["run", "stream"])
def test_what_to_install_is_one_line(monkeypatch, capsys, missing, java, status, line, arguments):
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name in missing else object())
    monkeypatch.setattr(sparksession.metadata, "version", lambda name: "4.2.0")
    monkeypatch.setattr(sparksession, "java_version", lambda: java)
    assert main(arguments) == status
    assert capsys.readouterr().err == line


@pytest.mark.parametrize(
    ("told", "version"),
    [('JAVA_VERSION="17.0.15"', 17), ('X="1"\nJAVA_VERSION="1.8.0_402"\n', 8), (None, 17)],
)
def test_the_version_of_java(monkeypatch, tmp_path, told, version):
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh")
    if told is not None:
        (tmp_path / "release").write_text(told)
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert sparksession.java_version() == version


def test_without_java(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert sparksession.java_version() is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--tables", "topics"], "'topics' is not one of exchanges"),
        (["--tables", ","], "is not one of"),
        (["--conf", "x"], "is not a setting"),
        (["--api", "nope"], "there is no API"),
        (["--keylog", "/nonexistent"], "/nonexistent"),
    ],
)
@pytest.mark.parametrize("arguments", [RUN, STREAM], ids=["run", "stream"])
def test_usage_errors(monkeypatch, capsys, options, words, arguments):
    monkeypatch.setattr(sparksession, "check", lambda: None)
    assert main([*arguments, *options]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--answers", "topics,nope"], "--answers: 'nope' is not one of summary, topics, clients,"),
        (["--answers", ","], "--answers: ',' is not one of summary"),
        (["--tables", "none"], "--tables: 'none' is not one of exchanges"),
    ],
)
def test_usage_errors_of_answers(monkeypatch, capsys, options, words):
    monkeypatch.setattr(sparksession, "check", lambda: None)
    assert main([*RUN, *options]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.tools
@pytest.mark.parametrize(
    ("options", "tables", "answers"),
    [
        (
            ["--answers", "topics,errors,topics"],
            ("exchanges", "batches", "connections"),
            ("topics", "errors"),
        ),
        (["--answers", " groups", "--tables", "none"], (), ("groups",)),
        (["--answers", "groups", "--tables", "records"], ("records",), ("groups",)),
        ([], ("exchanges", "batches", "connections"), ()),
    ],
)
def test_answers_are_asked_for_beside_tables_or_alone(monkeypatch, options, tables, answers):
    asked = []

    def request(*given, **more):
        asked.append((given[0], more["answers"]))
        raise KinspectError("enough")

    monkeypatch.setattr(sparksession, "check", lambda: None)
    monkeypatch.setattr(command, "_check_there", lambda paths: None)
    monkeypatch.setattr(command, "_request", request)
    assert main([*RUN, *options]) == 1
    assert asked == [(tables, answers)]


@pytest.mark.parametrize(
    "options", [["--settle", "soon"], ["--interval", "0"], ["--shards", "0"], ["--settle", "-1"]]
)
def test_usage_errors_of_a_stream(monkeypatch, capsys, options):
    monkeypatch.setattr(sparksession, "check", lambda: None)
    assert main([*STREAM, *options]) == 2
    assert options[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            [*RUN, "--way", "relay"],
            "--way is gone: there is one way, the fastest for one machine and for a cluster",
        ),
        ([*STREAM, "--strands", "8"], "--strands is gone: say --shards"),
        (
            [*STREAM, "--answers", "topics"],
            "--answers is of `pipeline run`: an answer is about a run that is over",
        ),
    ],
)
def test_options_that_a_command_does_not_have_are_refused_in_one_line(capsys, arguments, line):
    assert main(arguments) == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith(line)
    assert main([*arguments[:2], "--help"]) == 0
    assert arguments[-2] not in capsys.readouterr().out


def test_an_old_pyspark_is_told(monkeypatch, capsys):
    monkeypatch.setattr(extras, "find_spec", lambda name: object())
    monkeypatch.setattr(sparksession.metadata, "version", lambda name: "4.1.1")
    assert main(RUN) == 2
    assert "the pipeline needs PySpark 4.2 or later, found 4.1" in capsys.readouterr().err


def test_a_stopped_job_whose_tables_are_half_in_place_says_so():
    """An error of Spark is what comes of stopping it; one of ours tells what is there now."""
    interrupt = SimpleNamespace(received=signal.SIGINT)
    spark = SimpleNamespace(sparkContext=SimpleNamespace(cancelAllJobs=lambda: None))

    def work(error):
        raise error

    assert command._unless(interrupt, spark, lambda: work(RuntimeError("cancelled"))) is None
    with pytest.raises(KinspectError, match="run again to finish"):
        command._unless(interrupt, spark, lambda: work(KinspectError("tables: run again to finish")))


@pytest.mark.tools
@pytest.mark.parametrize(
    ("capture", "words"),
    [("/nonexistent/*.pcap", "no file has such a name"), ("/nonexistent/a.pcap", "no such file")],
)
def test_captures_are_looked_for_before_spark_starts(monkeypatch, capsys, capture, words):
    monkeypatch.setattr(sparksession, "check", lambda: None)
    monkeypatch.setattr(sparksession, "open_session", lambda *_: pytest.fail("a session was opened"))
    assert main(["pipeline", "run", capture, "--out", "tables"]) == 1
    assert f"{capture}: {words}" in capsys.readouterr().err


@pytest.mark.tools
@pytest.mark.parametrize("elsewhere", [["--master", "spark://nowhere:7077"], ["--skip-unreadable"]])
def test_captures_of_a_cluster_or_that_may_be_skipped_are_not_looked_for(monkeypatch, capsys, elsewhere):
    def opened(*_):
        raise KinspectError("opened")

    monkeypatch.setattr(sparksession, "check", lambda: None)
    monkeypatch.setattr(sparksession, "open_session", opened)
    assert main(["pipeline", "run", "/nonexistent/a.pcap", "--out", "tables", *elsewhere]) == 1
    assert capsys.readouterr().err == "kinspect: opened\n"
