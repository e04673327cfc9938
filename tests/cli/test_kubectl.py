"""`kubectl kinspect`, beside a stub of kubectl with its output forms."""

import json
import os
import signal
import sys

import pytest
from support.captures import CAPTURES

from kinspect.cli import kubectlplugin
from kinspect.cli.kubectlplugin import main

CAPTURE = CAPTURES / "4.1.2" / "admin_java.pcap"
STUB = f"""#!{sys.executable}
import json, os, pathlib, sys
here = pathlib.Path(__file__).parent
told = json.loads((here / "told.json").read_text())
arguments = sys.argv[1:]
with open(here / "calls", "a") as calls:
    print(json.dumps(arguments), file=calls)
words = [each for each in arguments if not each.startswith(("--namespace", "--context", "--kubeconfig"))]
if words[0] in told["fails"]:
    sys.exit(told["fails"][words[0]])
if words[:2] == ["get", "pod"]:
    debugs = [json.loads(line) for line in open(here / "calls") if '"debug"' in line]
    (name,) = [each.partition("=")[2] for each in debugs[-1] if each.startswith("--container=")]
    state = told["states"].pop(0) if len(told["states"]) > 1 else told["states"][0]
    (here / "told.json").write_text(json.dumps(told))
    statuses = [{{"name": "other", "state": {{"running": {{}}}}}}]
    statuses += [{{"name": name, "state": state}}] if state is not None else []
    print(json.dumps({{"kind": "Pod", "status": {{"phase": "Running", "ephemeralContainerStatuses": statuses}}}}))
elif words[0] == "get":
    print(json.dumps(told[words[1]]))
elif words[0] == "exec" and "tcpdump" in words:
    print("tcpdump: listening on any, link-type LINUX_SLL2", file=sys.stderr)
    sys.stdout.buffer.write(open({str(CAPTURE)!r}, "rb").read())
"""
RUNNING = {"running": {"startedAt": "2026-11-28T12:00:00Z"}}


def waiting(reason, **more):
    return {"waiting": {"reason": reason, **more}}


@pytest.fixture
def kubectl(tmp_path, monkeypatch):
    """Puts the stub in the place of kubectl; gives the function that says what it is to tell, and the calls so far."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "kubectl").write_text(STUB)
    (folder / "kubectl").chmod(0o700)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    monkeypatch.setattr("kinspect.cli.livecommand.drop", lambda: None)
    monkeypatch.setattr("kinspect.cli.livecommand.preload", lambda values: None)
    monkeypatch.setattr(kubectlplugin, "LOOK_SECONDS", 0)

    def tell(*states, fails=(), **objects):
        told = {"states": states or (RUNNING,), "fails": dict(fails), **objects}
        (folder / "told.json").write_text(json.dumps(told))

    def calls():
        return [json.loads(line) for line in (folder / "calls").read_text().splitlines()]

    tell()
    return tell, calls


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_pod(kubectl, tmp_path):
    tell, calls = kubectl
    tell(None, waiting("ContainerCreating"), RUNNING)
    out = tmp_path / "out"
    options = ["-n", "kafka", "--filter", "tcp port 9092", "-o", str(out), "--api", "Metadata", "-q"]
    assert main(["kafka-0", *options]) == 0
    assert {line["api"] for line in lines(out)} == {"Metadata"}
    debug, *looks, capture, end = calls()
    assert debug[:3] == ["--namespace=kafka", "debug", "kafka-0"]
    assert {"--quiet", "--profile=netadmin", f"--image={kubectlplugin.IMAGE}"} < {*debug}
    assert looks == [["--namespace=kafka", "get", "pod", "kafka-0", "-o", "json"]] * 3
    (container,) = [each for each in debug if each.startswith("--container=")]
    before = ["--namespace=kafka", "exec", "kafka-0", container, "--"]
    assert capture == [*before, "tcpdump", "-i", "any", "-U", "-w", "-", "tcp", "port", "9092"]
    assert end == [*before, "touch", "/tmp/kinspect-ended"]


def test_a_deployment(kubectl, tmp_path):
    tell, calls = kubectl
    pods = [
        {
            "metadata": {"name": "gone", "deletionTimestamp": "2026-11-28T12:00:00Z"},
            "status": {"phase": "Running"},
        },
        {"metadata": {"name": "pending"}, "status": {"phase": "Pending"}},
        {"metadata": {"name": "web-1"}, "status": {"phase": "Running"}},
    ]
    deployment = {"kind": "Deployment", "spec": {"selector": {"matchLabels": {"app": "web", "tier": "1"}}}}
    tell(**{"deploy/web": deployment, "pods": {"kind": "List", "items": pods}})
    assert main(["deploy/web", "-o", str(tmp_path / "out"), "-q"]) == 0
    assert lines(tmp_path / "out")
    assert calls()[1] == ["get", "pods", "-l", "app=web,tier=1", "-o", "json"]
    assert calls()[2][:2] == ["debug", "web-1"]


FORBIDDEN = 'Error from server (Forbidden): pods "kafka-0" is forbidden: User "u" cannot patch resource'


@pytest.mark.parametrize(
    ("told", "said", "ended"),
    [
        ({"fails": {"debug": FORBIDDEN}}, FORBIDDEN, False),
        (
            {"states": [waiting("ImagePullBackOff", message="Back-off pulling image")]},
            "Back-off pulling image",
            True,
        ),
        ({"states": [{"terminated": {"exitCode": 127}}]}, "it has ended", True),
        ({"fails": {"get": 'Error from server (NotFound): pods "kafka-0" not found'}}, "not found", True),
    ],
)
def test_what_fails_is_told_and_what_runs_is_ended(kubectl, capfd, told, said, ended):
    tell, calls = kubectl
    tell(*told.get("states", ()), fails=told.get("fails", {}))
    assert main(["kafka-0"]) == 1
    assert said in capfd.readouterr().err
    assert ("touch" in calls()[-1]) == ended


def test_a_signal_while_it_waits_ends_the_container(kubectl, monkeypatch):
    tell, calls = kubectl
    tell(waiting("ContainerCreating"))
    monkeypatch.setattr("time.sleep", lambda _: os.kill(os.getpid(), signal.SIGTERM))
    assert main(["kafka-0"]) == 130
    assert "touch" in calls()[-1]


def test_a_container_that_cannot_be_ended_is_told(kubectl, tmp_path, capfd):
    tell, _ = kubectl
    tell(fails={"exec": "error: unable to upgrade connection"})
    assert main(["kafka-0", "-o", str(tmp_path / "out")]) == 1
    said = capfd.readouterr().err
    assert "the command ended with status 1: error: unable to upgrade connection" in said
    assert "could not be ended, and ends by itself in four hours" in said


def test_selectors_without_labels_or_pods(kubectl, capfd):
    tell, _ = kubectl
    tell(**{"svc/x": {"kind": "Service", "spec": {"selector": {"app": "x"}}}})
    assert main(["svc/x"]) == 1
    assert "svc/x: selects no pods by labels" in capfd.readouterr().err
    tell(**{"sts/x": {"spec": {"selector": {"matchLabels": {"app": "x"}}}}, "pods": {"items": []}})
    assert main(["sts/x"]) == 1
    assert "sts/x: no pod of it is running" in capfd.readouterr().err


def test_without_kubectl(monkeypatch, tmp_path, capfd):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["kafka-0"]) == 1
    assert "kubectl: cannot be started: No such file" in capfd.readouterr().err


def test_help_and_usage(capsys):
    assert main(["--help"]) == 0
    assert "kubectl kinspect" in capsys.readouterr().out
    assert main([]) == 2
