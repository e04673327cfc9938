"""What shells complete: the words that `kinspect` names, and real shells in a terminal."""

import sys
from pathlib import Path
from socket import if_nameindex

import pytest
from support.terminal import Terminal

from kinspect.answers.latencyanswer import BY
from kinspect.cli import commands, main
from kinspect.cli.completioncommand import SHELLS
from kinspect.cli.completions import VARIABLE

ROOT = Path(__file__).parents[2]
INTERFACES = [name for _, name in if_nameindex()]


@pytest.fixture
def words(monkeypatch, capsys):
    """The words for the end of a line, in the form that bash asks for: with their kind."""

    def words(line):
        monkeypatch.setenv(VARIABLE, "bash_complete")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - (not line.endswith(" "))))
        assert main([]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        return out.splitlines()

    return words


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("kinspect ", [f"plain,{name}" for name in commands()]),
        ("kinspect sch", ["plain,schema"]),
        ("kinspect /var/captures/a", ["file,/var/captures/a"]),
        ("kinspect a.pcap b", ["file,b"]),
        ("kinspect a.pcap --form", ["plain,--format"]),
        ("kinspect read captures/", ["file,captures/"]),
        ("kinspect read --api prod", ["plain,Produce"]),
        ("kinspect read --api 'Fetch,!heartb", ["plain,Fetch,!Heartbeat"]),
        ("kinspect explore --error NOT_L", ["plain,NOT_LEADER_OR_FOLLOWER"]),
        ("kinspect read --role fol", ["plain,follower"]),
        ("kinspect read --emit exchange,g", ["plain,exchange,gap"]),
        ("kinspect read --format js", ["plain,jsonl"]),
        ("kinspect read --keylog /etc/ke", ["file,/etc/ke"]),
        ("kinspect live -i ", ["plain,any", *(f"plain,{name}" for name in INTERFACES)]),
        ("kinspect live --answer groups,err", ["plain,groups,errors"]),
        ("kinspect decode --api Heartb", ["plain,Heartbeat"]),
        ("kinspect schema rel", ["plain,releases"]),
        ("kinspect schema OffsetCommitV", ["plain,OffsetCommitValue"]),
        ("kinspect schema errors FENCED_LEADER", ["plain,FENCED_LEADER_EPOCH"]),
        ("kinspect latency --by ", [f"plain,{name}" for name in BY]),
        ("kinspect upgrade --to 4.4", ["plain,4.4.0"]),
        ("kinspect pipeline run --out here", ["dir,here"]),
        ("kinspect pipeline run --tables exchanges,conn", ["plain,exchanges,connections"]),
        ("kinspect completion ", [f"plain,{shell}" for shell in SHELLS]),
    ],
)
def test_words(words, line, expected):
    assert words(line) == expected


@pytest.mark.parametrize("line", ["kinspect read --api 'a\nb", "kinspect read --api '("])
def test_lines_that_no_word_fits_are_no_error(words, line):
    assert not any(word.startswith("plain") for word in words(line))


@pytest.mark.tools
@pytest.mark.parametrize(
    ("shell", "begin"),
    [
        ("bash", "bash --norc --noprofile"),
        ("zsh", "zsh --no-rcs"),
        ("fish", "fish --no-config"),
    ],
)
def test_a_real_shell_completes(tmp_path, shell, begin):
    program = tmp_path / "kinspect"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m kinspect "$@"\n')
    program.chmod(0o755)
    terminal = Terminal(tmp_path)
    try:
        terminal.run(f"export PATH={tmp_path}:$PATH; kinspect completion {shell} > {tmp_path}/script")
        assert terminal.status() == 0
        terminal.send("clear", "Enter", f"exec {begin}", "Enter")
        if shell == "zsh":
            terminal.send("autoload -U compinit && compinit -u -D", "Enter")
        terminal.send(f". {tmp_path}/script && echo rea''dy", "Enter")
        terminal.until("ready")
        terminal.send("kinspect schema Heartb", "Tab")
        terminal.until("kinspect schema Heartbeat")
        terminal.send("Space", "-", "-", "vers", "Tab")
        terminal.until("--version")
        terminal.send("4", "Enter")
        terminal.until("group_instance_id")
    finally:
        terminal.close()
