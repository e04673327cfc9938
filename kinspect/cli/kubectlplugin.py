"""`kubectl kinspect`: a plugin of kubectl, which finds `kubectl-kinspect` by its name: `kinspect live --from` with a
debug container in a pod that prints what the pod's network namespace sees.

Sources: Kubernetes' "Extend kubectl with plugins" and "Ephemeral Containers"; `kubectl debug --help` of 1.32.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from kinspect.cli import FAILED, click_status, complain
from kinspect.cli import main as kinspect
from kinspect.cli.interrupt import SIGNALS
from kinspect.errors import KinspectError

IMAGE = "docker.io/nicolaka/netshoot"
START_SECONDS = 120.0
"""Time for a debug container to start: its image may have to be pulled."""
LOOK_SECONDS = 1.0
LIFE_SECONDS = 4 * 60 * 60
"""Time after which a debug container ends by itself, if nobody could end it."""
_ENDED = "/tmp/kinspect-ended"  # in a container of its own
_UNTIL_ENDED = f"n=0; while [ $n -lt {LIFE_SECONDS} ] && [ ! -e {_ENDED} ]; do sleep 1; n=$((n + 1)); done"
_FAILS = (
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "CreateContainerError",
    "CreateContainerConfigError",
)
"""Why a container waits that will not start."""


class Kubectl:
    """Runs kubectl with options for all its commands. `options`: those that name the cluster and the namespace."""

    def __init__(self, options: Sequence[str]) -> None:
        self._options = [*options]

    def words(self, *arguments: str) -> list[str]:
        """The command's words."""
        return ["kubectl", *self._options, *arguments]

    def run(self, *arguments: str) -> str:
        """What a command prints. Raises KinspectError with what it says if it fails."""
        words = self.words(*arguments)
        try:
            done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        except OSError as error:
            raise KinspectError(f"kubectl: cannot be started: {error.strerror or error}") from None
        if done.returncode:
            said = "; ".join(done.stderr.decode(errors="replace").split("\n")).strip("; ")
            raise KinspectError(f"{shlex.join(words[:4])}: {said or f'ended with status {done.returncode}'}")
        return done.stdout.decode(errors="replace")

    def get(self, *arguments: str) -> dict[str, Any]:
        """Objects of the cluster. Raises KinspectError."""
        try:
            found = json.loads(self.run("get", *arguments, "-o", "json"))
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise KinspectError(f"kubectl get {arguments[0]}: printed no object")
        return found


def pod_of(kubectl: Kubectl, target: str) -> str:
    """The name of a pod: that one, or a running one of a deployment or the like. Raises KinspectError."""
    kind, _, name = target.rpartition("/")
    if kind in ("", "pod", "pods", "po"):
        return name
    labels = (kubectl.get(target).get("spec") or {}).get("selector", {}).get("matchLabels")
    if not labels:
        raise KinspectError(f"{target}: selects no pods by labels")
    pods = kubectl.get("pods", "-l", ",".join(f"{key}={value}" for key, value in labels.items()))
    for pod in pods.get("items", ()):
        if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]:
            return str(pod["metadata"]["name"])
    raise KinspectError(f"{target}: no pod of it is running")


@contextmanager
def debug_container(kubectl: Kubectl, pod: str, image: str) -> Iterator[str]:
    """Context in which a debug container runs in the pod, with the right to capture; gives its name. Raises
    KinspectError."""
    name = f"kinspect-{os.urandom(4).hex()}"
    # The profile gives NET_ADMIN and NET_RAW.
    kubectl.run(
        *("debug", pod, "--quiet", f"--image={image}", f"--container={name}", "--profile=netadmin"),
        *("--", "sh", "-c", _UNTIL_ENDED),
    )
    try:
        _wait_for(kubectl, pod, name)
        yield name
    finally:
        try:
            kubectl.run("exec", pod, f"--container={name}", "--", "touch", _ENDED)
        except KinspectError as error:
            complain(
                f"the debug container {name} could not be ended, and ends by itself in four hours: {error}"
            )


def _wait_for(kubectl: Kubectl, pod: str, name: str) -> None:
    """Wait until a debug container runs."""
    until = time.monotonic() + START_SECONDS
    while True:
        states = kubectl.get("pod", pod)["status"].get("ephemeralContainerStatuses", ())
        state: dict[str, Any] = next((each["state"] for each in states if each["name"] == name), {})
        if "running" in state:
            return
        waiting = state.get("waiting", {})
        reason = waiting.get("reason")
        if "terminated" in state or reason in _FAILS or time.monotonic() > until:
            why = waiting.get("message") or reason or ("it has ended" if state else "it was not started")
            raise KinspectError(f"{pod}: the debug container does not run: {why}")
        time.sleep(LOOK_SECONDS)


@click.command(
    context_settings={"ignore_unknown_options": True, "help_option_names": ["-h", "--help"]},
    options_metavar="[OPTIONS] [OPTIONS OF kinspect live]",
)
@click.argument("target", metavar="POD|KIND/NAME")
@click.argument("live", nargs=-1, type=click.UNPROCESSED, metavar="")
@click.option("-n", "--namespace", help="As kubectl's.")
@click.option("--context", help="As kubectl's.")
@click.option("--kubeconfig", metavar="FILE", help="As kubectl's.")
@click.option("--image", default=IMAGE, help=f"An image with sh and tcpdump.  [default: {IMAGE}]")
@click.option(
    "--filter", "chosen", default="tcp", help="The filter of tcpdump: tcp port 9092.  [default: tcp]"
)
def plugin(target: str, live: tuple[str, ...], image: str, chosen: str, **cluster: str | None) -> int:
    """Decode the Kafka traffic of a pod, or of a pod of a deployment (deploy/NAME, sts/NAME), as it comes.

    It adds a debug container to the pod, in which tcpdump runs, and ends it afterwards. Kubernetes lists it, as ended,
    as long as there is the pod. This needs the right to patch pods/ephemeralcontainers and to create pods/exec.

    All other options are those of `kinspect live`.
    """
    kubectl = Kubectl([f"--{option}={value}" for option, value in cluster.items() if value is not None])
    pod = pod_of(kubectl, target)
    with debug_container(kubectl, pod, image) as name:
        tcpdump = ["tcpdump", "-i", "any", "-U", "-w", "-", *shlex.split(chosen)]
        command = kubectl.words("exec", pod, f"--container={name}", "--", *tcpdump)
        return kinspect(["live", "--from", shlex.join(command), *live])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the plugin and return its exit status."""
    # The debug container is ended whatever asks for an end, as Ctrl-C does.
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    try:
        return click_status(
            lambda: plugin.main(arguments, prog_name="kubectl kinspect", standalone_mode=False)
        )
    except KinspectError as error:
        complain(str(error))
        return FAILED
