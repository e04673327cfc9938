"""The object of the fixture `kafka_wire`: where a test's traffic comes from, and what is expected of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final

from kinspect.api import check
from kinspect.checks.rulesfile import make_rule
from kinspect.checks.wirerule import WireRule
from kinspect.errors import KinspectError
from kinspect.filters.filterdefinitions import FILTERS
from kinspect.output.checktexts import explained
from kinspect.output.escape import escape
from kinspect.wiretest.advertised import Place
from kinspect.wiretest.forwarder import SETTLE_SECONDS, Forwarder
from kinspect.wiretest.livewire import LiveWire
from kinspect.wiretest.recording import Recording
from kinspect.wording import counted

RATE: Final = "per_second__gt"


class Wire:
    """What a test expects of its traffic, and the captures of that. `folder`: where these are kept.

    `allow_unknown`: an expectation that the captures are too incomplete to decide counts as met.
    """

    def __init__(self, folder: Path) -> None:
        self.allow_unknown = False
        self._folder = folder
        self._made: list[tuple[str, dict[str, Any]]] = []
        self._paths: list[str] = []
        self._keylogs: list[bytes] = []
        self._recorder: _Recorder | None = None
        self._live: list[LiveWire] = []
        self._live_is_over = False

    def forward(self, servers: str, elsewhere: Mapping[str, str] | None = None) -> str:
        """Forward to brokers, and record what is said; returns the `bootstrap.servers` for clients.

        `servers`: theirs, as `host:port` or several with commas between them. Clients reach each broker that responses
        name through this, too. `elsewhere`: by advertised address the one at which that broker can be reached from
        here. Raises KinspectError for what is no address.
        """
        brokers = [_place(each) for each in servers.split(",")]
        others = {_place(each): _place(other) for each, other in (elsewhere or {}).items()}
        if self._recorder is None:
            self._recorder = _Recorder(self._folder / "kafka_wire.pcapng")
        listening = self._recorder.forward(brokers, others)
        return ",".join(f"{host}:{port}" for host, port in listening)

    def live(self, interface: str = "lo", bpf: str | None = None) -> None:
        """Capture an interface until expectations are checked, where the process may: as root, or with CAP_NET_RAW.

        `bpf`: a filter of tcpdump, as `port 9092`. Raises KinspectError if nothing can be captured.
        """
        path = self._folder / f"kafka_wire_{interface}_{len(self._live)}.pcapng"
        self._live.append(LiveWire(path, interface, bpf))

    def read(self, path: str | PathLike[str], keylog: str | PathLike[str] | None = None) -> None:
        """Take a capture, too; it is read when expectations are checked. `keylog`: TLS secrets for it."""
        self._paths.append(fspath(path))
        if keylog is not None:
            self._keylogs.append(Path(keylog).read_bytes())

    def expect(
        self, *, count: int | str | range | None = None, name: str | None = None, **conditions: Any
    ) -> None:
        """Expect exchanges: filters choose them, and each of these is to have the other values.

        `expect(api="Produce", count=range(1, 4), acks=-1)`: 1 to 3 Produce requests, each with acks -1. Without a
        `count` at least one. `name`: what reports call it. Raises KinspectError for what is none.
        """
        __tracebackhide__ = True
        conditions = _as_lists(conditions)
        parts: dict[str, Any] = {"where": {}, "have": {}}
        for each, value in conditions.items():
            parts["where" if each in FILTERS else "have"][each] = value
        rule = {key: value for key, value in parts.items() if value}
        self._add(
            "expect",
            name,
            {"count": count, **conditions},
            {**rule, "count": "1.." if count is None else count},
        )

    def never(self, *, name: str | None = None, **conditions: Any) -> None:
        """Expect no exchange that meets all conditions; with `per_second__gt=3` not more than 3 within a second."""
        __tracebackhide__ = True
        conditions = _as_lists(conditions)
        if not conditions:
            raise KinspectError("never: say what, as never(api='Metadata')")
        where = {each: value for each, value in conditions.items() if each != RATE}
        rule: dict[str, Any] = {"where": where} if where else {}
        if RATE in conditions:
            rule["per_second"] = conditions[RATE]
        else:
            rule["count"] = 0
        self._add("never", name, conditions, rule)

    def versions(
        self,
        *,
        max: Mapping[str, int] | None = None,
        min: Mapping[str, int] | None = None,
        name: str | None = None,
    ) -> None:
        """Expect no request of a version above or below, by APIs: `versions(max={"Fetch": 12})`."""
        __tracebackhide__ = True
        highest, lowest = max or {}, min or {}
        rule = {
            api: f"{lowest.get(api, '')}..{highest.get(api, '')}"
            for api in dict.fromkeys([*highest, *lowest])
        }
        self._add("versions", name, {"max": max, "min": min}, {"versions": rule})

    def check(self) -> None:
        """Check all expectations so far. Raises AssertionError if any is not met, KinspectError if there is no
        traffic to look at, or a capture cannot be read."""
        __tracebackhide__ = True
        if not self._made:
            return
        rows = check(
            [*self._rules()],
            self._captures(),
            keylog=b"".join(self._keylogs),
            allow_unknown=self.allow_unknown,
            lacks=self._lacks(),
        )
        self._live_is_over = bool(self._live)
        broken = [row for row in rows if row["broken"]]
        if broken:
            raise AssertionError("\n".join(self._told(broken, len(rows))))

    def kept(self) -> list[str]:
        """The paths of what was recorded so far. Live captures are over then."""
        for capture in self._live:
            capture.end()
        paths = [str(capture.path) for capture in self._live]
        if self._recorder is not None:
            self._recorder.settle()
            paths.append(str(self._recorder.path))
        return paths

    def close(self) -> None:
        """Stop forwarding and capturing."""
        for capture in self._live:
            capture.end()
        if self._recorder is not None:
            self._recorder.close()

    def _add(self, what: str, name: str | None, said: dict[str, Any], rule: dict[str, Any]) -> None:
        __tracebackhide__ = True
        told = ", ".join(f"{each}={value!r}" for each, value in said.items() if value is not None)
        try:
            make_rule(what, rule)
        except KinspectError as error:
            raise KinspectError(f"{what}: {error}") from None
        self._made.append((name or f"{what}({told})", rule))

    def _rules(self) -> Iterator[WireRule]:
        for name, rule in self._made:
            yield make_rule(name, rule)

    def _lacks(self) -> Iterator[str]:
        """What may be missing in the captures, without a trace in them."""
        if self._live_is_over:
            yield "what was said after check(), with which the captures of live() ended"
        if self._recorder is not None:
            yield from self._recorder.lacks()

    def _captures(self) -> list[str]:
        captures = [*self.kept(), *self._paths]
        if not captures:
            raise KinspectError("kafka_wire has no traffic to look at: call its forward(), live() or read()")
        return captures

    def _told(self, broken: list[dict[str, Any]], of: int) -> Iterator[str]:
        yield f"{len(broken):,} of {counted(of, 'expectation')} on the wire not met"
        for row in broken:
            yield f"{row['status']}: {escape(row['rule'])}"
            yield from (f"    {line}" for line in explained(row))
        yield from (f"    {line}" for line in ([] if self._recorder is None else self._recorder.troubles()))


class _Recorder:
    """A forwarder, and the file that it records in."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("wb")
        self._recording = Recording(self._file)
        self._forwarder: Forwarder | None = Forwarder(self._recording)

    def forward(self, brokers: list[Place], elsewhere: Mapping[Place, Place]) -> list[Place]:
        if self._forwarder is None:
            raise KinspectError("kafka_wire forwards no more: its test is over")
        self._forwarder.elsewhere.update(elsewhere)
        return [self._forwarder.listen(broker) for broker in brokers]

    def settle(self) -> None:
        if self._forwarder is not None and not self._forwarder.held_up:
            self._forwarder.settle()

    def lacks(self) -> Iterator[str]:
        """What may be missing in the recording."""
        if self._forwarder is not None and self._forwarder.held_up:
            yield f"what clients sent, and a broker did not take, within {SETTLE_SECONDS:g} s"
        if self._forwarder is not None and (passed := self._forwarder.passed):
            yield f"{counted(passed, 'response')} that may name brokers to which clients connect themselves"
        if self._recording.missed:
            yield f"no room to record {self._recording.missed:,} bytes"

    def troubles(self) -> Iterator[str]:
        """What went wrong while forwarding."""
        if self._forwarder is not None:
            for (host, port), why in self._forwarder.unreachable.items():
                yield escape(f"broker {host}:{port} could not be reached: {why}")

    def close(self) -> None:
        forwarder, self._forwarder = self._forwarder, None
        if forwarder is not None:
            forwarder.close()
            self._file.close()


def _as_lists(conditions: dict[str, Any]) -> dict[str, Any]:
    """The conditions, with lists in place of what can be read once."""
    return {name: [*value] if isinstance(value, Iterator) else value for name, value in conditions.items()}


def _place(text: str) -> Place:
    """The host and port of `host:port`, `[::1]:9092` or, as configurations have it, `PLAINTEXT://host:port`."""
    host, _, port = text.strip().rpartition("://")[2].rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port[:6]) <= 65535:
        raise KinspectError(f"{text!r} is no address of a broker, as localhost:9092 is")
    return host.removeprefix("[").removesuffix("]"), int(port)
