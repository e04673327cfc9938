"""Troubles of clients that cannot connect, or do not stay connected, each with what `kinspect connect` tells of it.

A broker, a router and a client have a namespace each (`Network`). The broker has a listener for each way to be wrong,
the router drops, refuses or forgets; tcpdump listens on the client's side.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from central import program, run

from broker import scenarios
from broker.namespace import Network, address
from broker.server import HOST, USERS, Server

TOPIC = "orders"
USER, PASSWORD = USERS["PLAIN"]
CLOSED = 9999
"""A port at which nobody listens."""
WEB = 9998
"""A port at which a web server listens in the broker's place."""


class Listener(NamedTuple):
    """A listener of the broker: what it is told to clients as if that is not where it is, and its certificate."""

    port: int
    advertised: str | None = None
    certificate: str | None = None
    family: str = "inet"


LISTENERS = {
    "PLAINTEXT": Listener(9092),
    "SASL_PLAINTEXT": Listener(9093),
    "CLOSED": Listener(9095, f"{address('broker')}:{CLOSED}"),
    "ABSENT": Listener(9096, f"{address('broker', 99)}:9092"),
    "NOWHERE": Listener(9098, "nowhere.invalid:9092"),
    "WEB": Listener(9099, f"{address('broker')}:{WEB}"),
    "CLOSED6": Listener(9097, f"[{address('broker', family='inet6')}]:{CLOSED}", family="inet6"),
    "TLS": Listener(9195, certificate="right"),
    "EXPIRED": Listener(9196, certificate="expired"),
    "FOREIGN": Listener(9197, certificate="foreign"),
    "MISNAMED": Listener(9198, certificate="misnamed"),
    "OLD": Listener(9199, certificate="foreign"),
}


def _at(listener: Listener) -> str:
    """Where clients find a listener."""
    host = address("broker", family=listener.family)
    return f"{f'[{host}]' if ':' in host else host}:{listener.port}"


class Trouble(NamedTuple):
    """What clients do, and which problems, each with its severity, are in the capture then."""

    what: str
    problems: dict[str, str]
    listener: str = "PLAINTEXT"
    rules: tuple[str, ...] = ()
    """Rules of the router, in the words of nftables."""
    also_at: tuple[int, ...] = ()
    """Ports of others that a client takes for a broker."""
    mtu: int = 1500
    idle: int = 432_000
    """The router's MTU towards the broker, and the seconds after which it forgets a connection."""
    tls: bool = False
    first: bool = False
    """A healthy client connects first: what the port speaks is seen."""
    clients: tuple[str, ...] = ("java", "librdkafka", "aiokafka")
    command: tuple[str, ...] = ()
    """A program that is no client of Kafka, instead; `{host}` and `{port}` stand for the broker's."""
    secrets: tuple[str, ...] = ()
    asked: Mapping[str, Any] = {}
    """How the clients connect, beyond `ASKED`; under a client's name are settings in its own words."""
    settings: Mapping[str, str] = {}
    """Settings of the broker."""


ASKED = {"topic": TOPIC, "times": 1, "silence": 0, "size": 20, "seconds": 4, "anew": False}
"""How many records a client sends, of which size, how long it is silent between them and waits for each.

`anew` is a new client for each.
"""

TO_CLOSED = f"tcp dport {CLOSED}"
FORGOTTEN = "forward ct state invalid"
ERROR, WARNING, NOTE = "error", "warning", "note"

TROUBLES = {
    "healthy": Trouble("a record is sent through a router", {}),
    "healthy-tls": Trouble("a record is sent through a router, with TLS", {}, "TLS", tls=True),
    "refused": Trouble("advertised.listeners tells a port that is closed", {"refused": ERROR}, "CLOSED"),
    "refused-ipv6": Trouble(
        "advertised.listeners tells a port that is closed, over IPv6",
        {"refused": ERROR},
        "CLOSED6",
        clients=("librdkafka",),
    ),
    "nowhere": Trouble(
        "advertised.listeners tells a name that leads nowhere: the client asks for its address, and sends no TCP",
        {},
        "NOWHERE",
        clients=("librdkafka",),
    ),
    "web": Trouble(
        "advertised.listeners tells the port of a web server",
        {"not_kafka": ERROR},
        "WEB",
        also_at=(WEB,),
        clients=("java",),
        asked={"seconds": 2},
    ),
    "dropped": Trouble(
        "advertised.listeners tells a port whose packets a router drops",
        {"no_answer": ERROR},
        "CLOSED",
        (f"forward {TO_CLOSED} drop",),
        asked={"seconds": 6},
    ),
    "port-unreachable": Trouble(
        "advertised.listeners tells a port that a router refuses with ICMP port unreachable",
        {"unreachable": ERROR},
        "CLOSED",
        (f"forward {TO_CLOSED} reject with icmp port-unreachable",),
        clients=("java", "librdkafka"),
    ),
    "prohibited": Trouble(
        "advertised.listeners tells a port that a router refuses with ICMP administratively prohibited",
        {"unreachable": ERROR},
        "CLOSED",
        (f"forward {TO_CLOSED} reject with icmp admin-prohibited",),
        clients=("aiokafka",),
    ),
    "prohibited-ipv6": Trouble(
        "advertised.listeners tells a port that a router refuses with ICMPv6 administratively prohibited",
        {"unreachable": ERROR},
        "CLOSED6",
        (f"forward {TO_CLOSED} reject with icmpv6 admin-prohibited",),
        clients=("librdkafka",),
    ),
    "absent": Trouble(
        "advertised.listeners tells an address that nobody has; the router says host unreachable",
        {"unreachable": ERROR},
        "ABSENT",
        clients=("librdkafka",),
        asked={"seconds": 6},
    ),
    "plain-to-tls": Trouble(
        "a client without TLS at a port with TLS, after one with TLS",
        {"tls_expected": ERROR},
        "TLS",
        first=True,
        asked={"seconds": 2},
    ),
    "tls-to-plain": Trouble(
        "a client with TLS at a port without, after one without TLS",
        {"tls_not_expected": ERROR},
        tls=True,
        first=True,
        asked={"seconds": 2},
    ),
    "http": Trouble(
        "curl asks for a page at Kafka's port, after a client of Kafka",
        {"not_kafka": WARNING},
        first=True,
        command=("curl", "-sS", "-m", "5", "http://{host}:{port}/"),
    ),
    "expired": Trouble(
        "the broker's certificate has expired",
        {"tls_failed": ERROR},
        "EXPIRED",
        tls=True,
        asked={"seconds": 2},
    ),
    "foreign": Trouble(
        "the broker's certificate is of an authority that the client does not trust",
        {"tls_failed": ERROR},
        "FOREIGN",
        tls=True,
        asked={"seconds": 2},
    ),
    "misnamed": Trouble(
        "the broker's certificate is for another name",
        {"tls_failed": ERROR},
        "MISNAMED",
        tls=True,
        asked={"seconds": 2},
    ),
    "foreign-tls12": Trouble(
        "the broker's certificate is of an authority that the client does not trust, with TLS 1.2: its alert is seen",
        {"tls_failed": ERROR},
        "OLD",
        tls=True,
        clients=("java", "librdkafka"),
        asked={"seconds": 2},
    ),
    "tls-version": Trouble(
        "a client of TLS 1.3 alone at a broker of TLS 1.2 alone",
        {"tls_failed": ERROR},
        "OLD",
        tls=True,
        clients=("java",),
        asked={"seconds": 2, "java": {"ssl.enabled.protocols": "TLSv1.3"}},
    ),
    "health-check": Trouble(
        "a health check connects and closes, after a client of Kafka",
        {"closed_early": NOTE},
        first=True,
        command=("bash", "-c", "for i in 1 2 3; do exec 3<>/dev/tcp/{host}/{port}; exec 3>&-; sleep 1; done"),
    ),
    "password": Trouble(
        "SASL PLAIN with a wrong password",
        {"login_refused": ERROR},
        "SASL_PLAINTEXT",
        secrets=(f"not {PASSWORD}",),
        clients=("java", "librdkafka"),
        asked={
            "java": {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
                f'username="{USER}" password="not {PASSWORD}";',
            },
            "librdkafka": {
                "security.protocol": "sasl_plaintext",
                "sasl.mechanism": "PLAIN",
                "sasl.username": USER,
                "sasl.password": f"not {PASSWORD}",
            },
        },
    ),
    "no-login": Trouble(
        "a client without a login at a listener with SASL: the broker closes at its Metadata",
        {"login_expected": "error"},
        "SASL_PLAINTEXT",
        clients=("java", "librdkafka"),
        asked={"seconds": 2},
    ),
    "old-versions": Trouble(
        "a client that is told to speak as to a broker of 0.9: 4.x closes at its Produce",
        {"version_refused": ERROR},
        clients=("librdkafka",),
        asked={"librdkafka": {"api.version.request": "false", "broker.version.fallback": "0.9.0.1"}},
    ),
    "small-mtu": Trouble(
        "a record of 5,000 bytes over a link with an MTU of 1,400, which the router tells",
        {"unreachable": NOTE},
        mtu=1400,
        clients=("librdkafka",),
        asked={"size": 5000},
    ),
    "black-hole": Trouble(
        "a record of 5,000 bytes over a link with an MTU of 1,400; the router tells nothing",
        {"large_packets_lost": ERROR},
        "PLAINTEXT",
        ("output icmp type destination-unreachable drop",),
        mtu=1400,
        asked={"size": 5000, "seconds": 6},
    ),
    "forgotten": Trouble(
        "a router forgets a connection after a second of silence, and drops its packets",
        {"closed_idle": WARNING},
        "PLAINTEXT",
        (f"{FORGOTTEN} drop",),
        idle=1,
        asked={"times": 2, "silence": 3, "seconds": 5},
    ),
    "reset": Trouble(
        "a router forgets a connection after a second of silence, and answers its packets with a reset",
        {"closed_idle": WARNING},
        "PLAINTEXT",
        (f"{FORGOTTEN} reject with tcp reset",),
        idle=1,
        asked={"times": 2, "silence": 3},
    ),
    "prohibited-later": Trouble(
        "a router forgets a connection after a second of silence, and says administratively prohibited",
        {"unreachable": ERROR},
        "PLAINTEXT",
        (f"{FORGOTTEN} reject with icmp admin-prohibited",),
        idle=1,
        clients=("librdkafka",),
        asked={"times": 2, "silence": 3, "seconds": 5},
    ),
    "idle": Trouble(
        "connections.max.idle.ms of 2 s: a client is silent for 4 s, closes when the broker does, and asks on a new "
        "connection",
        {"closed_idle": NOTE},
        clients=("java", "aiokafka"),
        asked={"times": 2, "silence": 4},
        settings={"connections.max.idle.ms": "2000"},
    ),
    "churn": Trouble(
        "a new client for each of 32 records, three in a second",
        {"churn": WARNING},
        clients=("librdkafka",),
        asked={"times": 32, "silence": 0.28, "anew": True},
    ),
}

NAMES = tuple(
    f"{kind}_{client}"
    for kind, trouble in TROUBLES.items()
    for client in (trouble.command[:1] or trouble.clients)
)


def named(name: str) -> Trouble:
    return TROUBLES[name.rpartition("_")[0]]


class Certificates:
    """Keys and certificates of the listeners, made in a folder by authorities of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._openssl = program("openssl", "openssl")
        for authority in ("authority", "stranger"):
            self._run(
                *("req", "-x509", "-days", "3650", "-subj", f"/CN={authority}.example"),
                *self._new(authority),
                *("-out", f"{authority}.pem"),
            )
        self.authority = str(folder / "authority.pem")
        for name, authority, days, host in (
            ("right", "authority", 3650, f"IP:{address('broker')}"),
            ("expired", "authority", -1, f"IP:{address('broker')}"),
            ("foreign", "stranger", 3650, f"IP:{address('broker')}"),
            ("misnamed", "authority", 3650, "DNS:elsewhere.example"),
        ):
            self._run(
                *("req", "-subj", f"/CN={name}.example", "-addext", f"subjectAltName={host}"),
                *self._new(name),
                *("-out", f"{name}.csr"),
            )
            self._run(
                *("x509", "-req", "-in", f"{name}.csr", "-copy_extensions", "copy", "-days", str(days)),
                *("-CA", f"{authority}.pem", "-CAkey", f"{authority}.key", "-out", f"{name}.pem"),
            )

    def _new(self, name: str) -> tuple[str, ...]:
        return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key")

    def _run(self, *arguments: str) -> None:
        folder = str(self._folder)
        words = [
            f"{folder}/{word}" if word.endswith((".key", ".pem", ".csr")) else word for word in arguments
        ]
        run([self._openssl, *words], "no certificate was made")

    def keystore(self, name: str) -> str:
        """Path of a file with key and certificate, as the broker reads it."""
        path = self._folder / f"{name}.keystore"
        path.write_text("".join((self._folder / f"{name}.{end}").read_text() for end in ("key", "pem")))
        return str(path)


def settings(certificates: Certificates) -> dict[str, str]:
    """What the broker of these troubles has beyond a broker on loopback."""
    # The listener of the controller is as `Server` has it.
    listeners = [f"{name}://{_at(listener)}" for name, listener in LISTENERS.items()]
    told = [f"{name}://{listener.advertised or _at(listener)}" for name, listener in LISTENERS.items()]
    protocols = {
        name: name if name.endswith("PLAINTEXT") else "SSL" if listener.certificate else "PLAINTEXT"
        for name, listener in LISTENERS.items()
    } | {"CONTROLLER": "PLAINTEXT"}
    more = {
        "listeners": ",".join([*listeners, f"CONTROLLER://{HOST}:9094"]),
        "advertised.listeners": ",".join(told),
        "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in protocols.items()),
        "auto.create.topics.enable": "true",
        "listener.name.old.ssl.enabled.protocols": "TLSv1.2",
    }
    for name, listener in LISTENERS.items():
        if listener.certificate:
            prefix = f"listener.name.{name.lower()}.ssl.keystore"
            more[f"{prefix}.type"] = "PEM"
            more[f"{prefix}.location"] = certificates.keystore(listener.certificate)
    return more


class WebServer:
    """A web server at a port of a namespace, ended on exit."""

    def __init__(self, folder: Path, inside: tuple[str, ...]) -> None:
        settings = (
            f"daemon off; error_log stderr; pid nginx.pid; events {{}} http {{ server {{ listen {WEB}; }} }}"
        )
        (folder / "nginx.conf").write_text(settings)
        nginx = program("nginx", "nginx-light")
        self._command = [*inside, nginx, "-p", str(folder), "-c", str(folder / "nginx.conf")]

    def __enter__(self) -> None:
        self._process = subprocess.Popen(self._command, stderr=subprocess.DEVNULL)

    def __exit__(self, *error: Any) -> None:
        self._process.terminate()
        self._process.wait()


class Stage:
    """A network with a running broker, in which troubles are performed."""

    def __init__(self, server: Server, network: Network, certificates: Certificates) -> None:
        self.server = server
        self.network = network
        self._certificates = certificates
        self._client(TROUBLES["healthy"], "librdkafka", "first")  # makes the topic

    def perform(self, name: str) -> dict[str, Any]:
        """Run the clients of a trouble; return `clients`, `what`, `ports` and `facts` for a manifest's row."""
        trouble, client = named(name), name.rpartition("_")[2]
        told = {"clients": client, "facts": {}}
        if trouble.first:
            secure = LISTENERS[trouble.listener].certificate is not None
            first = self._client(trouble._replace(tls=secure, asked={}), "librdkafka", "first")
            told["clients"] = f"{first['clients']}, then {client}"
        self.network.let(trouble.rules, trouble.mtu, trouble.idle)
        if trouble.command:
            self._command(trouble)
        else:
            then = self._client(trouble, client, name)
            told["clients"] = then["clients"]
        time.sleep(0.5)  # what ends the connections
        return {
            **told,
            "what": trouble.what,
            "ports": ",".join(map(str, (LISTENERS[trouble.listener].port, *trouble.also_at))),
            "facts": {"connect": trouble.problems}
            | ({"secrets": trouble.secrets} if trouble.secrets else {}),
        }

    def clear(self) -> None:
        """Let nothing of a trouble reach the next one."""
        self.network.let()
        self.network.end_connections()

    def _client(self, trouble: Trouble, client: str, name: str) -> dict[str, Any]:
        asked = {**ASKED, **trouble.asked}
        if trouble.tls:
            asked["ca"] = self._certificates.authority
        servers = _at(LISTENERS[trouble.listener])
        arguments = ["connect", name, servers, servers, json.dumps(asked)]
        return scenarios.run(client, arguments, self.server, self.network.client.inside)

    def _command(self, trouble: Trouble) -> None:
        host, port = address("broker"), LISTENERS[trouble.listener].port
        words = [word.format(host=host, port=port) for word in trouble.command]
        # It fails, as it should.
        subprocess.run([*self.network.client.inside, *words], check=False, capture_output=True, timeout=60)
