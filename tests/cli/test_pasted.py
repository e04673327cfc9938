"""Messages as tools print them."""

import base64
import gzip
import re
import struct
import subprocess

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from support.pcap import Conversation, pcap, tcp_frame

from kinspect.cli.pasted import message_bytes, parse_dump
from kinspect.errors import KinspectError

MESSAGE = bytes(range(48, 83)) + b"dead beef" + bytes(4)


def frame(payload):
    """Ethernet, IPv4 and TCP around it."""
    talk = Conversation()
    talk.client_sends(payload)
    return talk.packets[0].data


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


def test_lines_repeated_without_end_are_refused():
    text = f"00000000  {'00 ' * 16}\n*\nfffffff0  01\n"
    with pytest.raises(KinspectError, match="4294967280 bytes"):
        message_bytes(text.encode())


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
        MESSAGE.hex(" ", 2),
        MESSAGE.hex("-"),
        ", ".join(f"{b:#x}" for b in MESSAGE),
        " ".join(f"0X{b:02X}" for b in MESSAGE),
        f"{{{', '.join(f'0x{b:02x}' for b in MESSAGE)}}};",
        f"<Buffer {MESSAGE.hex(' ')}>",
        f'"{MESSAGE.hex()}"',
        "'" + "".join(f"\\x{b:02x}" for b in MESSAGE) + "'",
        f'"{base64.b64encode(MESSAGE).decode()}"',
        str([b - 256 if b > 127 else b for b in MESSAGE]),
        str(list(MESSAGE)),
        f"[{' '.join(map(str, MESSAGE))}]",
        f"new byte[] {{{', '.join(map(str, MESSAGE))}}};",
        f"  {list(MESSAGE)}\n".replace(", ", ",\n  "),
        str(MESSAGE),
        str(bytearray(MESSAGE)),
        f"bytes({MESSAGE!r})",
        f"({MESSAGE[:9]!r}\n {MESSAGE[9:]!r})",
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


@pytest.mark.parametrize("text", ["hello, world!", "nothing to see", "abc=def", "-", "{0x00, 0x0c, ...}"])
def test_other_text_is_no_message(text):
    for pasted in (text, text.encode()):
        with pytest.raises(KinspectError, match="is no message: give hex, base64, Java's "):
            message_bytes(pasted)


@pytest.mark.parametrize(
    ("text", "strange"),
    [
        ("äöü", "ä"),
        ("[0, 18, …]", "…"),
        ("{0x00, 0x0c, …}", "…"),
        ("b'\\x00é'", "é"),
        ("000c\u00a00004", "\\xa0"),
        ("“000c0004”", "“"),
    ],
)
def test_text_that_is_not_ascii_is_no_message(text, strange):
    for pasted in (text, text.encode(), b"\xef\xbb\xbf" + text.encode()):
        with pytest.raises(
            KinspectError, match=f"is no message: it contains '{re.escape(strange)}'; give hex"
        ):
            message_bytes(pasted)


@pytest.mark.parametrize("text", ["\udcff\udcfe", "\0\0\0\x08", "\x1b[2J", "00\x01"])
def test_an_argument_is_never_the_bytes_themselves(text):
    with pytest.raises(KinspectError, match="is no message"):
        message_bytes(text)


def test_what_stands_around_a_dump_may_be_any_text():
    assert message_bytes(f"\ufeffvoilà…\n{xxd(MESSAGE)}\n".encode()) == MESSAGE


def test_a_word_is_not_base64_of_a_message():
    with pytest.raises(
        KinspectError, match="as base64 it has 6 of the 8 bytes that one begins with; give hex, "
    ):
        message_bytes(b"Metadata", 8)
    assert message_bytes(b"Metadata123M", 8) == base64.b64decode("Metadata123M")
    assert message_bytes(b"00", 8) == b"\0"


PRINTED_BY_WORDS = [
    *(["hexdump"], ["hexdump", "-x"], ["od", "-x"], ["od", "-A", "x", "-x"], ["od", "-A", "d", "-t", "x2"]),
    *(["od", "-t", "x1"], ["od", "-t", "x1z"], ["od", "-t", "x4"], ["od", "-A", "x", "-t", "x8"]),
]


def printed(command, data):
    return subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True).stdout


@pytest.mark.parametrize("size", [1, 2, 15, 16, 17, 44, 48, 300])
@pytest.mark.parametrize("command", PRINTED_BY_WORDS, ids=" ".join)
def test_words_are_printed_with_their_lower_byte_first(command, size):
    data = (MESSAGE + bytes(64) + b"\xff" + MESSAGE * 5)[:size]
    assert message_bytes(printed(command, data)) == data


@pytest.mark.parametrize(
    "command",
    [
        ["hexdump", "-b"],
        ["hexdump", "-d"],
        ["hexdump", "-o"],
        ["hexdump", "-c"],
        ["od"],
        ["od", "-b"],
        ["od", "-c"],
    ],
)
def test_other_numbers_are_refused(command):
    with pytest.raises(KinspectError, match=r"looks like a dump.*: give that of `hexdump -C`"):
        message_bytes(printed(command, MESSAGE))


@pytest.mark.parametrize("command", [["hexdump"], ["od", "-x"], ["od", "-t", "x1"]])
def test_a_dump_of_which_a_line_is_missing(command):
    first, _, *rest = printed(command, MESSAGE).splitlines(keepends=True)
    with pytest.raises(KinspectError, match="with parts missing: give that of `hexdump -C`"):
        message_bytes(b"".join([first, *rest]))


def test_a_whole_packet_gives_its_payload():
    assert message_bytes(wireshark(frame(MESSAGE)).encode()) == MESSAGE
    assert message_bytes(tcpdump(frame(MESSAGE)[14:]).encode()) == MESSAGE


IPV4 = frame(MESSAGE)[14:]
CHECKSUM = 0xFFFF - sum(struct.unpack(">10H", IPV4[:20])) % 0xFFFF
CHECKED = IPV4[:10] + CHECKSUM.to_bytes(2) + IPV4[12:]
IPV6 = b"\x60\0\0\0" + (len(IPV4) - 20).to_bytes(2) + b"\x06\x40" + bytes(32) + IPV4[20:]
ETHERNET = frame(MESSAGE)[:12]
FRAMES = {
    "Ethernet": frame(MESSAGE),
    "with a checksum": ETHERNET + b"\x08\0" + CHECKED,
    "IPv6": ETHERNET + b"\x86\xdd" + IPV6,
    "VLAN": ETHERNET + b"\x81\0\0\5\x08\0" + CHECKED,
    "two VLANs": ETHERNET + b"\x88\xa8\0\5\x81\0\0\6\x86\xdd" + IPV6,
    "frame check sequence": frame(MESSAGE) + b"\1\2\3\4",
    "cooked": bytes(14) + b"\x08\0" + CHECKED,
    "cooked v2": b"\x08\0" + bytes(18) + CHECKED,
    "loopback": b"\2\0\0\0" + CHECKED,
    "IP alone": CHECKED,
    "IPv6 alone": IPV6,
}


@pytest.mark.parametrize("data", FRAMES.values(), ids=FRAMES)
def test_the_headers_of_a_packet_are_passed_over(data):
    for text in (data.hex(), data.hex(":"), base64.b64encode(data).decode(), str(list(data)), data):
        assert message_bytes(text) == MESSAGE


NO_FRAMES = {
    "wrong checksum": ETHERNET + b"\x08\0" + IPV4[:10] + (CHECKSUM ^ 1).to_bytes(2) + IPV4[12:],
    "cut": frame(MESSAGE)[:-1],
    "longer": frame(MESSAGE) + bytes(7),
    "IPv6, cut": ETHERNET + b"\x86\xdd" + IPV6[:-1],
    "no payload": tcp_frame(("10.0.0.1", 1), ("10.0.0.9", 2), 0, 0, 0x10),
    "IP of no version": ETHERNET + b"\x08\0\x55" + CHECKED[1:],
    "a short header": ETHERNET + b"\x08\0\x41" + CHECKED[1:],
    "UDP": ETHERNET + b"\x08\0" + IPV4[:9] + b"\x11" + IPV4[10:],
    "tags alone": ETHERNET + b"\x81\0\x81\0" * 9,
}


@pytest.mark.parametrize("data", NO_FRAMES.values(), ids=NO_FRAMES)
def test_what_may_be_no_packet_is_left_as_it_is(data):
    assert message_bytes(data.hex()) == data


@pytest.mark.parametrize("text", ["abc", "00 0c 0", "0x000c000", MESSAGE.hex()[:-1]])
def test_an_odd_number_of_hex_digits_is_not_base64(text):
    with pytest.raises(KinspectError, match="odd number of digits"):
        message_bytes(text.encode())


@pytest.mark.parametrize(
    ("text", "place", "strange"),
    [
        ("000c0004000000010006636c69656e7400026700000001026d000O", 54, "O"),
        ("000000010000000000001b0g", 24, "g"),
        ("0x00, 0x0c, 0x00, 0x0l, 0x00, 0x00", 22, "l"),
        ("00 0c 00 04 00 00 00 01 00 0=", 29, "="),
    ],
)
def test_mistyped_hex_is_not_base64(text, place, strange):
    with pytest.raises(KinspectError, match=f"^character {place}, '{strange}', is no hex digit$"):
        message_bytes(text)


@pytest.mark.parametrize(
    "data",
    [b"\0\0\0\1" + bytes(8), b"\0\x12\0\4" + bytes(9), b"\xd3\x4d\x34\xd3" * 3 + b"\0"],
    ids=bytes.hex,
)
def test_base64_with_few_other_letters_than_hex(data):
    assert message_bytes(base64.b64encode(data).decode()) == data


@pytest.mark.parametrize("dump", [hexdump, xxd, tcpdump, wireshark])
def test_several_packets(dump):
    with pytest.raises(KinspectError, match="several packets: paste one"):
        message_bytes(f"{dump(MESSAGE)}\n{dump(MESSAGE)}\n".encode())


def tshark(**sections):
    """As `tshark -x` prints a packet and what it put together."""
    return "\n\n".join(
        f"{name.replace('_', ' ')} ({len(data)} bytes):\n{wireshark(data)}" for name, data in sections.items()
    )


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
def test_no_bytes_are_no_message(data):
    with pytest.raises(KinspectError, match="there is no message"):
        message_bytes(data)


def test_a_capture_is_no_message():
    content = pcap(Conversation().packets)
    for written in (
        content,
        xxd(content),
        hexdump(content),
        content.hex(),
        base64.b64encode(content).decode(),
    ):
        with pytest.raises(KinspectError, match="this is a capture: use `kinspect read`"):
            message_bytes(written)
    compressed = gzip.compress(content)
    for written in (compressed, xxd(compressed)):
        with pytest.raises(KinspectError, match="`kinspect read` reads compressed captures"):
            message_bytes(written)


@given(data=st.binary(min_size=1, max_size=60))
@example(data=b"snoop\0\0\0")
def test_what_java_and_python_print(data):
    try:
        message_bytes(data.hex().encode())
    except KinspectError as error:
        # It begins as a capture or a compressed file does, and that is no message.
        assume("kinspect read" not in str(error))
    signed = [b - 256 if b > 127 else b for b in data]
    for text in (str(signed), str(list(data)), repr(data), repr(bytearray(data))):
        assert message_bytes(text.encode()) == data


@pytest.mark.parametrize(
    ("text", "data"),
    [
        (r"b'\0\12\377\q\a\\'", b"\x00\x0a\xff\\q\x07\\"),
        ('b"it\'s"', b"it's"),
        (r"b'\xzz\x1'", b"\\xzz\\x1"),
        ("[-128, 127, +5, 255]", b"\x80\x7f\x05\xff"),
        ("[0]", b"\0"),
    ],
)
def test_escapes_and_the_ends_of_ranges(text, data):
    assert message_bytes(text.encode()) == data


@pytest.mark.parametrize(
    "text",
    ["[0, 256]", "[-129]", "[" + "9" * 5000 + "]", "[1-2]", "[+-1]", "[0, 18,", "b'abc", "[]", "[,]", "b''"],
)
def test_numbers_that_are_no_bytes_are_one_clear_error(text):
    with pytest.raises(KinspectError) as caught:
        message_bytes(text.encode())
    assert len(str(caught.value)) < 200
