"""Names of addresses and processes: from `--names`, and from what pcapng files say beside packets."""

import json
import struct
from collections.abc import Iterable
from ipaddress import ip_address

import orjson
import pytest
from support.captures import CAPTURES
from support.packets import moved, packets
from support.pcap import pcap
from support.tui import indexed

import kinspect
from kinspect.capture.hostfiles import host_names, load_host_names
from kinspect.capture.packetnotes import NAMES_READ
from kinspect.capture.timeline import open_timeline
from kinspect.capture.writer import block_of, interface_block, section
from kinspect.errors import KinspectError
from kinspect.filters.filter import Filter
from kinspect.kafka.wire.hostnames import NO_NAMES, TOLD_MOST, EndNames, HostNames
from kinspect.tui.index import row
from kinspect.tui.index.filterline import parse_filter
from kinspect.tui.index.rowfacts import RowFacts

CAPTURE = CAPTURES / "4.4.0" / "kip848.pcap.gz"
LOCAL = "127.0.0.1"

PODS = {
    "apiVersion": "v1",
    "kind": "List",
    "metadata": {"resourceVersion": ""},
    "items": [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "orders-7d9f", "namespace": "shop", "labels": {"app": "orders"}},
            "spec": {"containers": [{"name": "app", "ports": [{"containerPort": 8080, "protocol": "TCP"}]}]},
            "status": {
                "phase": "Running",
                "hostIP": "192.168.1.10",
                "podIP": "10.1.0.7",
                "podIPs": [{"ip": "10.1.0.7"}, {"ip": "fd00::0007"}],
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "migrate-x2", "namespace": "shop"},
            "spec": {"containers": []},
            "status": {"phase": "Succeeded", "podIP": "10.1.0.8", "podIPs": [{"ip": "10.1.0.8"}]},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "kafka-0", "namespace": "kafka"},
            "spec": {
                "hostNetwork": True,
                "containers": [{"name": "broker", "ports": [{"containerPort": 9092, "hostPort": 9092}]}],
            },
            "status": {"phase": "Running", "podIP": "192.168.1.10", "podIPs": [{"ip": "192.168.1.10"}]},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "bootstrap", "namespace": "kafka"},
            "spec": {
                "type": "LoadBalancer",
                "clusterIP": "10.96.0.20",
                "clusterIPs": ["10.96.0.20"],
                "externalIPs": ["203.0.113.4"],
                "ports": [{"port": 9092, "targetPort": 9092, "nodePort": 30092, "protocol": "TCP"}],
            },
            "status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.5"}, {"hostname": "kafka.example"}]}},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "brokers", "namespace": "kafka"},
            "spec": {"clusterIP": "None", "clusterIPs": ["None"], "ports": [{"port": 9092}]},
            "status": {"loadBalancer": {}},
        },
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "node-a"},
            "spec": {"podCIDR": "10.1.0.0/24"},
            "status": {
                "addresses": [
                    {"type": "InternalIP", "address": "192.168.1.10"},
                    {"type": "Hostname", "address": "node-a"},
                ]
            },
        },
    ],
}
"""What `kubectl get pods,services,nodes -A -o json` prints, by the API's types."""


def written(tmp_path, content) -> str:
    path = tmp_path / "names"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def lines(result) -> list[dict]:
    assert result.status == 0, result.err
    return [orjson.loads(line) for line in result.out.splitlines()]


# ---------------------------------------------------------------------- files


def test_a_hosts_file_names_addresses_by_the_first_name_of_the_first_line(tmp_path):
    text = "# hosts\n10.0.0.1 one alias # why\n\n10.0.0.1\tother\n fe80::0001%eth0 link\n"
    assert load_host_names(written(tmp_path, text)) == {("10.0.0.1", None): "one", ("fe80::1", None): "link"}


def test_json_names_addresses_and_ports(tmp_path):
    given = {"10.0.0.1": "host", "10.0.0.1:9092": "broker", "[::1]:9092": "six", "2001:DB8::1": "v6"}
    assert load_host_names(written(tmp_path, given)) == {
        ("10.0.0.1", None): "host",
        ("10.0.0.1", 9092): "broker",
        ("::1", 9092): "six",
        ("2001:db8::1", None): "v6",
    }


@pytest.mark.parametrize("shape", ["list", "one"])
def test_kubernetes_objects(tmp_path, shape):
    if shape == "one":
        assert load_host_names(written(tmp_path, PODS["items"][5])) == {("192.168.1.10", None): "node-a"}
        return
    assert load_host_names(written(tmp_path, PODS)) == {
        ("10.1.0.7", None): "shop/orders-7d9f",
        ("fd00::7", None): "shop/orders-7d9f",
        ("192.168.1.10", 9092): "kafka/kafka-0",
        ("192.168.1.10", 30092): "svc/kafka/bootstrap",
        ("192.168.1.10", None): "node-a",
        ("10.96.0.20", None): "svc/kafka/bootstrap",
        ("203.0.113.4", None): "svc/kafka/bootstrap",
        ("203.0.113.5", None): "svc/kafka/bootstrap",
    }


@pytest.mark.parametrize("wrong", [None, 5, "text", [], {}, [None], [5], {"addresses": [{"address": 7}]}])
def test_objects_of_other_types_have_no_names(tmp_path, wrong):
    kinds = [
        {"kind": kind, "metadata": meta, "spec": wrong, "status": wrong}
        for kind in ("Pod", "Service", "Node", 7)
        for meta in (wrong, {"name": "x", "namespace": wrong})
    ]
    assert load_host_names(written(tmp_path, {"items": [wrong, *kinds]})) == {}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("10.0.0.1", ", line 1: must be an address and its names, or one JSON object"),
        ("x\n", ", line 1: must be"),
        ("{", ": is not JSON"),
        ({"10.0.0.1": 5}, ": must be an object of addresses and names"),
        ({"10.0.0.1:99999": "x"}, ": '10.0.0.1:99999' is no address"),
        ({"host": "x"}, ": 'host' is no address"),
        ({"10.0.0.1": ""}, ": '' is no name"),
        ({"10.0.0.1": "a\x1bb"}, "is no name"),
        ({"10.0.0.1": "x" * 321}, "is no name"),
    ],
)
def test_other_files_are_refused_in_a_line(kinspect, tmp_path, content, why):
    path = written(tmp_path, content)
    result = kinspect("read", CAPTURE, "--names", path)
    assert result.status == 2
    assert f"--names: {path}{why}" in result.err or why in result.err
    assert result.err.count("\x1b") == 0


def test_names_in_python():
    for wrong in ({"10.0.0.1": 5}, {"x": "y"}, ["10.0.0.1"]):
        with pytest.raises(KinspectError, match=r"^names"):
            kinspect.read(str(CAPTURE), names=wrong)
    assert host_names({"10.0.0.1": "x"}) == {("10.0.0.1", None): "x"}
    (exchange, *_) = kinspect.read(str(CAPTURE), names={LOCAL: "here"}, filter={"broker_host": "here"})
    assert (exchange.client_name, exchange.broker_name, exchange.client_process) == ("here", "here", None)


# ---------------------------------------------------------------------- which name counts


ENDS = ("10.0.0.1", 5), ("10.0.0.2", 9092)
SAME_HOST = ("10.0.0.1", 5), ("10.0.0.1", 9092)


def key(time: int, frame: int = 1, first: int = 1):
    return time, frame, first, 1


def test_the_order_of_names():
    names = HostNames({("10.0.0.1", 9092): "port", ("10.0.0.1", None): "address"})
    client, broker = SAME_HOST
    names.learn("10.0.0.1", "told", key(0))
    names.learn_end(client, broker, "noted", "java[1]", key(0))
    assert names.of(client, broker, key(5)) == EndNames("address", "port", "java[1]")
    told = HostNames()
    assert not told.known
    assert told.of(client, broker, key(5)) is NO_NAMES
    told.learn("10.0.0.1", "second", key(3))
    told.learn("10.0.0.1", "first", key(2))
    told.learn("10.0.0.1", "third", key(4))
    told.learn_end(client, broker, "noted", None, key(3))
    assert told.of(client, broker, key(2)) == NO_NAMES
    assert told.of(client, broker, key(3, 2)) == EndNames("noted", "first")


def test_a_port_is_another_process_when_a_connection_uses_it_again():
    names = HostNames()
    names.learn_end(*ENDS, None, "java[1]", (10, 3, 0, 0))
    names.learn_end(*ENDS, None, "python[2]", (20, 9, 0, 0))
    assert names.of(*ENDS, (15, 4, 1, 1)).client_process == "java[1]"
    # Nothing was told of the second connection yet.
    assert names.of(*ENDS, (18, 8, 7, 1)).client_process is None
    assert names.of(*ENDS, (25, 10, 7, 2)).client_process == "python[2]"


def test_a_broker_has_its_name_on_all_connections():
    names = HostNames()
    broker = "10.0.0.2", 9092
    for number, client in enumerate((("10.0.0.1", 5), ("10.0.0.1", 6))):
        names.learn_end(broker, client, "kafka-0", None, key(number, 10 * number + 2))
        assert (
            names.of(client, broker, key(number, 10 * number + 3, 10 * number + 1)).broker_name == "kafka-0"
        )


def test_what_is_kept_is_bounded():
    names = HostNames()
    for number in range(3 * TOLD_MOST):
        names.learn_end(*ENDS, None, f"x[{number}]", key(number))
    assert names.of(*ENDS, key(10**9)).client_process == f"x[{TOLD_MOST - 1}]"


# ---------------------------------------------------------------------- what captures carry


def option(mark: str, code: int, value: bytes) -> bytes:
    return struct.pack(mark + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def resolution(records: Iterable[tuple[str, str]]) -> bytes:
    body = b""
    for address, name in records:
        packed = ip_address(address).packed
        body += option("<", 1 if len(packed) == 4 else 2, packed + name.encode() + b"\0")
    return block_of(4, body + bytes(4))


def noted(time: int, data: bytes, wire: int, comments: list[str], direction: int) -> bytes:
    options = b"".join(option("<", 1, comment.encode()) for comment in comments)
    options += option("<", 2, struct.pack("<I", direction)) + bytes(4)
    head = struct.pack("<IIIII", 0, time >> 32, time & 0xFFFFFFFF, len(data), wire)
    return block_of(6, head + data + bytes(-len(data) % 4) + options)


PTCPDUMP = [
    "PID: 4242\nCmd: /usr/lib/jvm/bin/java\nArgs: java -Dpassword=secret\nPID: 7",
    "ParentPID: 1\nParentCmd: /sbin/init\nParentArgs: ",
    "ContainerName: app\nContainerId: 0123\nContainerImage: orders:1\nContainerLabels: {}",
    "PodName: orders-7d9f\nPodNamespace: shop\nPodUID: 1\nPodLabels: {}\nPodAnnotations: {}",
]
"""Comments as ptcpdump writes them."""


def pcapng(path, first: bytes = b"", comments=None, late: bytes = b"") -> str:
    """The capture as pcapng: `first` before its packets, `late` behind its middle; `comments` of packets to the
    broker."""
    (link_type, packets) = 0, []
    for block in open_timeline([CAPTURE]):
        link_type = block.link_types[0]
        rows = zip(block.times, block.starts, block.ends, block.wire_lengths, strict=True)
        packets += [(time, block.data[start:end], wire) for time, start, end, wire in rows]
    broker = kinspect_port().to_bytes(2, "big")
    written = [section(), interface_block(link_type), first]
    for number, (time, data, wire) in enumerate(packets):
        written.append(late if number == len(packets) // 2 else b"")
        own = comments if comments is not None and data[36:38] == broker else ["a comment of somebody"]
        written.append(noted(time, data, wire, own, 2))
    path.write_bytes(b"".join(written))
    return str(path)


def kinspect_port() -> int:
    with kinspect.read(str(CAPTURE)) as found:
        return next(found).connection.broker_port


def test_a_capture_names_addresses(kinspect, tmp_path):
    path = pcapng(tmp_path / "a.pcapng", resolution([(LOCAL, "first"), (LOCAL, "again"), ("::1", "six")]))
    shown = lines(kinspect("read", path, "--fields", "client,broker", "-q"))
    plain = lines(kinspect("read", CAPTURE, "--fields", "client,broker", "-q"))
    assert {(line["client"]["name"], line["broker"]["name"]) for line in shown} == {("first", "first")}
    for line in (*shown, *plain):
        line["client"]["name"] = line["broker"]["name"] = None
    assert shown == plain
    named = lines(kinspect("read", path, "--names", written(tmp_path, {LOCAL: "given"}), "-q"))
    assert {line["client"]["name"] for line in named} == {"given"}


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_name_counts_from_where_it_stands(kinspect, tmp_path, jobs):
    path = pcapng(tmp_path / "a.pcapng", late=resolution([(LOCAL, "late")]))
    told = [line["client"]["name"] for line in lines(kinspect("read", path, "-q", "--jobs", jobs))]
    assert None in told
    assert "late" in told
    assert told == sorted(told, key=lambda name: name is not None)
    again = pcapng(tmp_path / "b.pcapng", late=resolution([(LOCAL, "late")]))
    assert [line["client"]["name"] for line in lines(kinspect("read", again, "-q"))] == told


def test_ptcpdump_names_pods_and_processes(kinspect, tmp_path):
    path = pcapng(tmp_path / "a.pcapng", comments=PTCPDUMP)
    result = kinspect("read", path, "-q", "--emit", "exchange,connection")
    shown = [line for line in lines(result) if line["client"]["process"] is not None]
    assert {line["type"] for line in shown} == {"exchange", "connection"}
    assert {line["client"]["name"] for line in shown} == {"shop/orders-7d9f"}
    assert {line["client"]["process"] for line in shown} == {"java[4242]"}
    # Arguments may hold secrets.
    assert "password" not in result.out
    assert {line["broker"]["name"] for line in shown} == {None}
    (ecs, *_) = lines(kinspect("read", path, "-q", "--format", "ecs", "--process", "java"))
    assert ecs["process"] == {"name": "java", "pid": 4242}
    assert ecs["orchestrator"] == {
        "type": "kubernetes",
        "namespace": "shop",
        "resource": {"type": "pod", "name": "orders-7d9f"},
    }
    assert ecs["source"]["domain"] == ecs["client"]["domain"] == "shop/orders-7d9f"
    for chosen in (["--client-host", "shop/*"], ["--process", "java[[]4242]"]):
        assert lines(kinspect("read", path, "-q", *chosen))
    for chosen in (["--broker-host", "shop/*"], ["--process", "python"], ["--process", "!java"]):
        assert not lines(kinspect("read", path, "-q", *chosen))


@pytest.mark.parametrize("direction", [0, 3])
def test_without_a_direction_nobody_knows_whose_process_it_is(direction):
    from kinspect.capture.packetnotes import note_of

    flags = (2, struct.pack("<I", direction))
    comment = (1, PTCPDUMP[0].encode())
    assert note_of([comment, flags], False) is None
    assert note_of([flags], False) is None
    assert note_of([comment, (2, struct.pack("<I", 1))], False) == (True, None, "java[4242]")
    assert note_of([comment, (2, struct.pack(">I", 2))], True) == (False, None, "java[4242]")
    for useless in (b"PID: 1", b"PodName: ", b"ContainerName: \nCmd: x", b"PID: 1\nCmd: \xff" + b"x" * 9000):
        assert note_of([(1, useless), (2, struct.pack("<I", 1))], False) is None
    assert note_of([(1, b"ContainerName: web"), (2, struct.pack("<I", 1))], False) == (True, "web", None)


@pytest.mark.big
def test_more_names_than_anybody_has_take_no_memory(tmp_path):
    records = [(str(ip_address(number)), f"h{number}") for number in range(NAMES_READ + 5)]
    path = pcapng(tmp_path / "a.pcapng", resolution(records[:NAMES_READ]) + resolution(records[NAMES_READ:]))
    assert sum(len(block.names) for block in open_timeline([path])) == NAMES_READ


def test_damaged_resolution_blocks(kinspect, tmp_path):
    packed = ip_address(LOCAL).packed
    bodies = [
        b"",
        option("<", 1, packed),
        option("<", 1, packed + b"\0"),
        option("<", 1, packed + b"unended"),
        option("<", 1, packed + b"x" * 400 + b"\0"),
        struct.pack("<HH", 1, 60000) + packed + b"cut\0",
        option("<", 9, b"other") + option("<", 2, packed + b"short\0"),
        option("<", 0, b"") + option("<", 1, packed + b"behind\0"),
    ]
    path = pcapng(tmp_path / "a.pcapng", b"".join(block_of(4, body) for body in bodies))
    assert {line["client"]["name"] for line in lines(kinspect("read", path, "-q"))} == {None}
    hostile = option("<", 1, packed + b"a\x1b[31m\xff\n\0")
    path = pcapng(tmp_path / "b.pcapng", block_of(4, hostile))
    result = kinspect("read", path, "--format", "table", "--wide", "-q")
    assert "\x1b" not in result.out
    assert "a\\x1b[31m" in result.out


# ---------------------------------------------------------------------- every output


@pytest.fixture
def names(tmp_path):
    return written(tmp_path, {LOCAL: "shop/orders-7d9f", f"{LOCAL}:{kinspect_port()}": "kafka/kafka-0"})


def test_tables_have_names(kinspect, names):
    result = kinspect("read", CAPTURE, "--names", names, "--format", "table", "--wide", "-q")
    assert "shop/orders-7d9f:" in result.out
    assert f"→kafka/kafka-0:{kinspect_port()}" in result.out
    assert LOCAL not in result.out
    detail = kinspect("read", CAPTURE, "--names", names, "--format", "detail", "--limit", "1", "-q").out
    assert "name=shop/orders-7d9f" in detail
    assert "name=kafka/kafka-0" in detail


def test_fields_and_csv_have_names(kinspect, names):
    fields = "client.name,broker.name,client.process"
    result = kinspect(
        "read", CAPTURE, "--names", names, "--format", "csv", "--fields", fields, "--limit", "1", "-q"
    )
    assert result.out == f"{fields}\nshop/orders-7d9f,kafka/kafka-0,\n"


def test_filters_take_names(kinspect, names):
    count = len(lines(kinspect("read", CAPTURE, "-q")))
    for option, value, passed in (
        ("--host", "kafka/*", count),
        ("--client-host", "kafka/*", 0),
        ("--client-host", "shop/orders-????", count),
        ("--broker-host", "!kafka/kafka-0", 0),
        ("--broker-host", "127.0.0.0/8", count),
        ("--host", "nobody", 0),
    ):
        result = kinspect("read", CAPTURE, "--names", names, option, value, "--emit", "exchange", "-q")
        assert len(lines(result)) == passed, (option, value)
    connections = ["--emit", "connection", "--broker-host", "kafka/*"]
    assert lines(kinspect("read", CAPTURE, "--names", names, "-q", *connections))
    hint = kinspect("read", CAPTURE, "--names", names, "--broker-host", "nobody").err
    assert "kafka/kafka-0" in hint


@pytest.mark.parametrize("jobs", [1, 2])
def test_answers_have_names(kinspect, names, jobs):
    shown = kinspect("clients", CAPTURE, "--names", names, "--format", "table", "--jobs", jobs).out
    assert "shop/orders-7d9f" in shown
    assert (
        f"kafka/kafka-0:{kinspect_port()}"
        in kinspect("brokers", CAPTURE, "--names", names, "--format", "table").out
    )
    found = orjson.loads(
        kinspect("clients", CAPTURE, "--names", names, "--format", "json", "--jobs", jobs).out
    )
    broker = f"{LOCAL}:{kinspect_port()}"
    assert found["capture"].pop("names") == {LOCAL: ["shop/orders-7d9f"], broker: ["kafka/kafka-0"]}
    plain = orjson.loads(kinspect("clients", CAPTURE, "--format", "json").out)
    assert found == plain


def test_two_twins_are_one_with_the_names_of_both(tmp_path):
    path = tmp_path / "twice.pcap"
    taken = [*packets(CAPTURE)]
    copies = [moved(packet, 1, hops=1) for packet in taken]
    both = [each for pair in zip(taken, copies, strict=True) for each in pair]
    path.write_bytes(pcap([(packet.time // 1000, packet.data) for packet in both]))
    ends = {(each.connection.client_ip, each.connection.broker_ip) for each in kinspect.read(path)}
    names = {ip: f"name-of-{ip}" for pair in ends for ip in pair}
    found = kinspect.answer("clients", path, names=names)
    assert found["capture"]["twins"] > 0
    assert max(len(own) for own in found["capture"]["names"].values()) == 2


def test_metrics_count_names(names):
    from kinspect.analysis.metrics import NAMED_EXCHANGES, OTHER, KafkaMetrics

    given = {LOCAL: "shop/orders-7d9f", f"{LOCAL}:{kinspect_port()}": "kafka/kafka-0"}
    exchanges = list(kinspect.read(str(CAPTURE), names=given))
    metrics = KafkaMetrics(detail=True)
    for exchange in exchanges:
        metrics.add(exchange)
    assert metrics.result()[NAMED_EXCHANGES.name] == {("shop/orders-7d9f", "kafka/kafka-0"): len(exchanges)}
    bounded = KafkaMetrics(detail=True, labels=2)
    for number, exchange in enumerate(exchanges[:5]):
        exchange.client_name = f"name-{number}"
        bounded.add(exchange)
    assert bounded.result()[NAMED_EXCHANGES.name][(OTHER, OTHER)] == 3
    plain = KafkaMetrics(detail=True)
    plain.add(next(kinspect.read(str(CAPTURE))))
    assert plain.result()[NAMED_EXCHANGES.name] == {}


@pytest.mark.big
def test_the_explorer_filters_as_read_does(tmp_path):
    path = pcapng(tmp_path / "a.pcapng", comments=PTCPDUMP)
    broker = LOCAL, kinspect_port()
    store, wanted = indexed(path, hosts={broker: "kafka/kafka-0"}), []
    for exchange in kinspect.read(path, names={f"{LOCAL}:{broker[1]}": "kafka/kafka-0"}):
        again, line = store.exchange(len(wanted)), store.line(len(wanted))
        wanted.append(exchange)
        assert again.to_dict()["client"] == exchange.to_dict()["client"]
        assert again.to_dict()["broker"] == exchange.to_dict()["broker"]
        assert (line["client"]["name"], line["broker"]["name"]) == (exchange.client_name, "kafka/kafka-0")
    assert store.count == len(wanted)
    for text in ("process=java", "client-host=shop/*", "host=nobody", "broker-host=kafka/*", "process=!java"):
        command, explorer = Filter(**parse_filter(text)), Filter(**parse_filter(text))
        for number, exchange in enumerate(wanted):
            facts = RowFacts(store.texts, row.values(store.rows, number))
            assert explorer.matches(facts) == command.matches(exchange), (text, number)
    assert {"java[4242]", "java"} <= {*store.seen["process"]}


def test_parquet_has_names(kinspect, names, tmp_path):
    import pyarrow.parquet as pq

    out = tmp_path / "tables"
    result = kinspect("read", CAPTURE, "--names", names, "--format", "parquet", "-o", out, "-q")
    assert result.status == 0, result.err
    rows = pq.read_table(out / "exchanges", columns=["client", "broker"]).to_pylist()
    assert {(row["client"]["name"], row["broker"]["name"]) for row in rows} == {
        ("shop/orders-7d9f", "kafka/kafka-0")
    }
