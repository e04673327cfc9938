"""Messages as tools print them."""

import base64
import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pcap import Conversation, pcap

from kinspect.cli.pasted import message_bytes, parse_dump
from kinspect.errors import KinspectError

MESSAGE = bytes(range(48, 83)) + b"dead beef" + bytes(4)


def hexdump(data):
    """As `hexdump -C` prints it."""
    out = []
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        first, second = (" ".join(f"{b:02x}" for b in part) for part in (row[:8], row[8:]))
        out.append(f"{at:08x}  {first:<23}  {second:<23}  |{printable(row)}|")
    return "\n".join([*out, f"{len(data):08x}\n"])


def xxd(data):
    out = []
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        groups = " ".join(row[i : i + 2].hex() for i in range(0, len(row), 2))
        out.append(f"{at:08x}: {groups:<39}  {printable(row)}")
    return "\n".join(out)


def tcpdump(data):
    """As `tcpdump -X` prints it, with its line on the packet."""
    out = [
        "08:31:08.601521 IP 10.0.0.1.40000 > 10.0.0.9.9092: Flags [P.], seq 1:84, ack 1, win 512, length 83"
    ]
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        groups = " ".join(row[i : i + 2].hex() for i in range(0, len(row), 2))
        out.append(f"\t0x{at:04x}:  {groups:<39}  {printable(row)}")
    return "\n".join(out)


def wireshark(data):
    """As Wireshark's "Copy as hex and text" gives it."""
    return "\n".join(
        f"{at:04x}   {' '.join(f'{b:02x}' for b in data[at : at + 16]):<47}   {printable(data[at : at + 16])}"
        for at in range(0, len(data), 16)
    )


def printable(row):
    return "".join(chr(b) if 32 <= b < 127 else "." for b in row)


@pytest.mark.parametrize("dump", [hexdump, xxd, tcpdump, wireshark])
@given(data=st.binary(min_size=1, max_size=100))
def test_dumps(dump, data):
    assert parse_dump(dump(data)) == data


@pytest.mark.parametrize("dump", [hexdump, xxd, tcpdump, wireshark])
@given(text=st.text(alphabet="0123456789abcdef ", min_size=1, max_size=70))
def test_dumps_of_what_looks_like_hex_itself(dump, text):
    data = text.encode()
    assert parse_dump(dump(data)) == data


def test_repeated_lines():
    zeros = f"{'00 ' * 8} {'00 ' * 8}"
    text = f"00000000  {zeros} |................|\n*\n00000030  01  |.|\n00000031\n"
    assert parse_dump(text) == bytes(48) + b"\x01"


@pytest.mark.parametrize(
    "text",
    [
        MESSAGE.hex(),
        MESSAGE.hex().upper(),
        MESSAGE.hex(" "),
        MESSAGE.hex(":"),
        "0x" + MESSAGE.hex(),
        ", ".join(f"0x{b:02x}" for b in MESSAGE),
        "".join(f"\\x{b:02x}" for b in MESSAGE),
        MESSAGE.hex("\n", 16),
        base64.b64encode(MESSAGE).decode(),
        base64.b64encode(MESSAGE).decode().rstrip("="),
        base64.urlsafe_b64encode(MESSAGE).decode(),
        base64.encodebytes(MESSAGE).decode(),
    ],
)
def test_hex_and_base64(text):
    assert message_bytes(text.encode()) == MESSAGE


def test_bytes_are_taken_as_they_are():
    assert message_bytes(MESSAGE) == MESSAGE


@pytest.mark.parametrize("text", ["hello, world!", "nothing to see", "abc=def", "äöü", "-"])
def test_other_text(text):
    if text.isascii():
        with pytest.raises(KinspectError, match="is no message: give hex, base64 or the dump of hexdump -C"):
            message_bytes(text.encode())


def test_a_word_is_not_base64_of_a_message():
    with pytest.raises(
        KinspectError, match="as base64 it has 6 of the 8 bytes that one begins with; give hex, "
    ):
        message_bytes(b"Metadata", 8)
    assert message_bytes(b"Metadata123M", 8) == base64.b64decode("Metadata123M")
    assert message_bytes(b"00", 8) == b"\0"


def test_a_whole_packet_gives_its_payload():
    talk = Conversation()
    talk.client_sends(MESSAGE)
    frame = talk.packets[0].data
    assert message_bytes(wireshark(frame).encode()) == MESSAGE
    assert message_bytes(tcpdump(frame[14:]).encode()) == MESSAGE


@pytest.mark.parametrize("text", ["abc", "00 0c 0", "0x000c000", MESSAGE.hex()[:-1]])
def test_an_odd_number_of_hex_digits_is_not_base64(text):
    with pytest.raises(KinspectError, match="odd number of digits"):
        message_bytes(text.encode())


@pytest.mark.parametrize("dump", [hexdump, xxd, tcpdump, wireshark])
def test_several_packets(dump):
    with pytest.raises(KinspectError, match="several packets: paste one"):
        message_bytes(f"{dump(MESSAGE)}\n{dump(MESSAGE)}\n".encode())


def tshark(**sections):
    """As `tshark -x` prints a packet and what it put together."""
    return "\n\n".join(
        f"{name.replace('_', ' ')} ({len(data)} bytes):\n{wireshark(data)}" for name, data in sections.items()
    )


def frame(payload):
    talk = Conversation()
    talk.client_sends(payload)
    return talk.packets[0].data


@pytest.mark.parametrize(
    "sections",
    [
        {"Frame": frame(MESSAGE)},
        {"Frame": frame(b"the end"), "Reassembled_TCP": MESSAGE},
        {"Frame": frame(b"a record"), "Decrypted_TLS": MESSAGE},
        {
            "Frame": frame(b"a record"),
            "Reassembled_TCP": b"records",
            "Decrypted_TLS": b"the end",
            "Reassembled_TLS": MESSAGE,
        },
        {"Reassembled_TCP": MESSAGE},
    ],
    ids=" ".join,
)
def test_what_tshark_put_together(sections):
    assert message_bytes(tshark(**sections).encode()) == MESSAGE


def test_sections_that_leave_open_which_is_meant():
    put_together = tshark(Frame=frame(b"the end"), Reassembled_TCP=MESSAGE)
    with pytest.raises(KinspectError, match="several packets: paste one"):
        message_bytes(f"{tshark(Frame=frame(b'other'))}\n\n{put_together}\n".encode())
    with pytest.raises(KinspectError, match="several sections 'Reassembled TCP': paste one"):
        message_bytes(f"{put_together}\n\n{tshark(Reassembled_TCP=MESSAGE)}\n".encode())


def test_a_section_that_is_a_packet_by_chance_is_no_packet():
    assert message_bytes(tshark(Reassembled_TCP=frame(MESSAGE)).encode()) == frame(MESSAGE)


@pytest.mark.parametrize("data", [b"", b" \n"])
def test_nothing(data):
    with pytest.raises(KinspectError, match="there is no message"):
        message_bytes(data)


def test_a_capture_is_no_message():
    content = pcap(Conversation().packets)
    with pytest.raises(KinspectError, match="this is a capture: use `kinspect read`"):
        message_bytes(content)
    with pytest.raises(KinspectError, match="`kinspect read` reads compressed captures"):
        message_bytes(gzip.compress(content))
