"""Network namespaces: a loopback interface without other traffic, or a client, a router and a broker."""

from __future__ import annotations

import subprocess
import uuid
from contextlib import ExitStack
from typing import Any

from central import ToolError, program, run


class Namespace:
    """Made on entry, removed on exit; `inside` is the beginning of a command that runs there. Needs root."""

    def __init__(self) -> None:
        self.name = f"kinspect-{uuid.uuid4().hex[:8]}"
        self._ip = program("ip", "iproute2")
        self.inside = (self._ip, "netns", "exec", self.name)

    def __enter__(self) -> Namespace:
        made = subprocess.run(
            [self._ip, "netns", "add", self.name], check=False, capture_output=True, text=True
        )
        if made.returncode:
            raise ToolError(f"no network namespace: {made.stderr.strip()}")
        self.ip("link set lo up")
        return self

    def __exit__(self, *error: Any) -> None:
        subprocess.run([self._ip, "netns", "del", self.name], check=False)

    def ip(self, words: str) -> None:
        run([self._ip, "-n", self.name, *words.split()], f"ip {words}")

    def set(self, variable: str) -> None:
        """Set a variable of the kernel, as `net.ipv4.ip_forward=1`."""
        run([*self.inside, program("sysctl", "procps"), "-q", "-w", variable], f"sysctl {variable}")


SIDES = {"client": 1, "broker": 2}
"""The sides of the router, with the number of each in its addresses."""

NETS = {"inet": ("10.77.{}.", 24), "inet6": ("fd77:{}::", 64)}


def address(side: str, host: int = 2, family: str = "inet") -> str:
    """The address of a host at a side of the router; the router itself is host 1, client and broker are 2."""
    return f"{NETS[family][0].format(SIDES[side])}{host}"


class Network:
    """Namespaces of a client and of a broker, and of a router between them whose rules can be changed."""

    INTERFACE = "veth"
    """Name of the client's and of the broker's interface."""

    _BEGINNING = (
        "flush ruleset",
        "add table inet router",
        "add chain inet router forward { type filter hook forward priority 0; }",
        "add chain inet router output { type filter hook output priority 0; }",
    )

    def __init__(self) -> None:
        self._nft = program("nft", "nftables")
        self._made = ExitStack()
        self.client, self.router, self.broker = Namespace(), Namespace(), Namespace()

    def __enter__(self) -> Network:
        with self._made:
            for namespace in (self.router, self.client, self.broker):
                self._made.enter_context(namespace)
            self.router.set("net.ipv4.ip_forward=1")
            self.router.set("net.ipv6.conf.all.forwarding=1")
            self.router.set("net.ipv4.icmp_ratelimit=0")
            for side, namespace in (("client", self.client), ("broker", self.broker)):
                self._connect(side, namespace)
            self._made = self._made.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._made.close()

    def _connect(self, side: str, namespace: Namespace) -> None:
        veth = self.INTERFACE
        namespace.ip(f"link add {veth} type veth peer name {side} netns {self.router.name}")
        # Packets of the size that a network carries, not what the kernel would cut later.
        namespace.ip(f"link set {veth} gso_max_segs 1 up")
        self.router.ip(f"link set {side} up")
        for family, (_, length) in NETS.items():
            here, there = address(side, family=family), address(side, 1, family)
            more = " nodad" if family == "inet6" else ""
            namespace.ip(f"address add {here}/{length} dev {veth}{more}")
            self.router.ip(f"address add {there}/{length} dev {side}{more}")
            namespace.ip(
                f"-{family.replace('inet6', '6').replace('inet', '4')} route add default via {there}"
            )

    def let(self, rules: tuple[str, ...] = (), mtu: int = 1500, idle: int = 432_000) -> None:
        """Let the router work by these rules of nftables alone, with packets of this size towards the broker.

        A connection that was silent for `idle` seconds is unknown to it: to rules, its state is `invalid`.
        """
        commands = [*self._BEGINNING, *(f"add rule inet router {rule}" for rule in rules)]
        run([*self.router.inside, self._nft, "; ".join(commands)], "the router's rules")
        self.router.ip(f"link set broker mtu {mtu}")
        if rules:
            self.router.set("net.netfilter.nf_conntrack_tcp_loose=0")
            self.router.set(f"net.netfilter.nf_conntrack_tcp_timeout_established={idle}")
        self.client.ip("route flush cache")

    def end_connections(self) -> None:
        """End what is left of connections of clients that are gone."""
        run([*self.client.inside, program("ss", "iproute2"), "-t", "-K"], "connections do not end")
