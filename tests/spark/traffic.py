"""Captures of many connections with everything that connections of a run have in common: silence, loss, ports used
again, capture points with clocks of their own, topic ids that another connection names, node ids."""

from __future__ import annotations

import struct

from support.pcap import Conversation, Packet, framed, pcap

from kinspect.protocol import Message, encode_request, encode_response

METADATA, HEARTBEAT, API_VERSIONS = 3, 12, 18
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAABQ"


def exchange(talk, number, key, version, request, response, client_id):
    """Packets of a request and, if given, its response."""
    talk.client_sends(framed(encode_request(Message(key, version, number, request, client_id))))
    if response is not None:
        talk.broker_sends(framed(encode_response(Message(key, version, number, response))))


def beat():
    return {"group_id": "g", "generation_id": 1, "member_id": "m"}


def metadata(topic_id, name, node_id):
    """A Metadata v12 request by topic id, and the response with the topic's name and the broker's node id."""
    asked = {
        "topics": [{"topic_id": topic_id, "name": None}],
        "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": False,
    }
    told = {
        "throttle_time_ms": 0,
        "brokers": [{"node_id": node_id, "host": "10.0.0.9", "port": 9092, "rack": None}],
        "cluster_id": None,
        "controller_id": 1,
        "topics": [
            {
                "error_code": 0,
                "name": name,
                "topic_id": topic_id,
                "is_internal": False,
                "partitions": [],
                "topic_authorized_operations": 0,
            }
        ],
    }
    return asked, told


def conversation(rng, port):
    """One connection, whole or seen from its middle, ended or not."""
    talk = Conversation(client=("10.0.0.1", port), broker=("10.0.0.9", 9092))
    if rng.random() < 0.8:
        talk.open()
    client = f"app-{rng.randrange(3)}"
    for number in range(rng.randrange(1, 12)):
        kind = rng.random()
        if kind < 0.3:
            name = "orders" if rng.random() < 0.5 else None
            asked, told = metadata(TOPIC_ID, name, 1)
            exchange(talk, number, METADATA, 12, asked, told, client)
        else:
            answer = {"error_code": 0} if kind < 0.9 else None
            exchange(talk, number, HEARTBEAT, rng.choice((0, 4)), beat(), answer, client)
    if rng.random() < 0.5:
        talk.close()
    return talk.packets


def spread(rng, packets):
    """The packets at other times: some long silences, some packets lost, doubled or late."""
    time = 1_700_000_000_000_000 + rng.randrange(2_000_000)
    moved = []
    for _, data in packets:
        time += rng.choice((1, 50, 3_000, 200_000))
        if rng.random() < 0.03:
            time += rng.choice((2_000_000, 9_000_000, 650_000_000))
        if rng.random() < 0.03:
            continue
        moved.append(Packet(time + (rng.choice((300, 40_000)) if rng.random() < 0.03 else 0), data))
        if rng.random() < 0.03:
            moved.append(Packet(time + rng.choice((5, 20_000)), data))
    return moved


def captures(rng, folder):
    """Writes a few captures; their paths."""
    packets = []
    for _ in range(rng.randrange(2, 14)):
        packets += spread(rng, conversation(rng, 40_000 + rng.randrange(8)))
    packets.sort(key=lambda packet: packet.time_us)
    for _ in range(len(packets) // 30):
        # What a capture with several queues does.
        at = rng.randrange(len(packets))
        packets.insert(max(0, at - rng.randrange(12)), packets.pop(at))
    count = rng.choice((1, 3))
    way = rng.choice(("rotated", "mixed"))
    shares = [[] for _ in range(count)]
    for number, packet in enumerate(packets):
        share = number * count // len(packets) if way == "rotated" else rng.randrange(count)
        shares[share].append(packet)
    paths = []
    for number, share in enumerate(shares):
        path = folder / f"{number}.pcap"
        path.write_bytes(pcap(share))
        paths.append(path)
    return paths


def moving(rng, folder):
    """Path of a capture of connections that take turns; each of them reports the broker's node id again."""
    packets = []
    for turn in range(40):
        talk = Conversation(client=("10.0.0.1", 40_000 + turn), broker=("10.0.0.9", 9092))
        talk.open()
        asked, told = metadata(TOPIC_ID, "orders", rng.choice((1, 1, 2)))
        for number, response in enumerate((told, told)):
            exchange(talk, number, METADATA, 12, asked, response, "app")
        exchange(talk, 2, HEARTBEAT, 4, beat(), {"error_code": 0}, "app")
        start = 1_700_000_000_000_000 + turn * 1_000_000
        packets += [Packet(start + 100 * number, packet.data) for number, packet in enumerate(talk.packets)]
    path = folder / "moving.pcap"
    path.write_bytes(pcap(packets))
    return path


def rotated(capture, folder, count):
    """A pcap cut into `count` files of about the same number of packets."""
    data = capture.read_bytes()
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    records, at = [], 24
    while at < len(data):
        size = 16 + struct.unpack_from(order + "I", data, at + 8)[0]
        records.append(data[at : at + size])
        at += size
    paths = []
    for number in range(count):
        share = records[number * len(records) // count : (number + 1) * len(records) // count]
        path = folder / f"ring{number:02}.pcap"
        path.write_bytes(data[:24] + b"".join(share))
        paths.append(path)
    return paths


def pcapng(found, order="<", resolution=9):
    """A pcapng file of packets: one section, two interfaces with times in 10**-resolution seconds, packets in turn.

    A packet whose time is None is of the first interface, in a simple packet block, which has none.
    """

    def block(kind, body):
        body += bytes(-len(body) % 4)
        size = struct.pack(order + "I", len(body) + 12)
        return struct.pack(order + "I", kind) + size + body + size

    option = struct.pack(order + "HHB3xHH", 9, 1, resolution, 0, 0)
    interface = block(1, struct.pack(order + "HHI", 1, 0, 0) + option)
    parts = [block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1)), interface, interface]
    for number, (time, data) in enumerate(found):
        if time is None:
            parts.append(block(3, struct.pack(order + "I", len(data)) + data))
            continue
        time //= 10 ** (9 - resolution)
        head = struct.pack(order + "IIIII", number % 2, time >> 32, time & 0xFFFFFFFF, len(data), len(data))
        parts.append(block(6, head + data))
    return b"".join(parts)
