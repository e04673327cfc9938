"""A capture whose names a terminal, or markup, would obey."""

import unicodedata

from kinspect.protocol import Message, encode_request, encode_response

from .pcap import Conversation, framed, pcap

EVIL = "\x1b]0;owned\x07[red]x[/red]:smile:\u202egnp\n\r\x9b2J\u2028\x00"


def dangerous(text):
    """The characters that a terminal would obey."""
    return {c for c in text if c != "\n" and unicodedata.category(c) in {"Cc", "Cf", "Zl", "Zp"}}


def hostile():
    """Four exchanges, of which every text is such a name."""
    conversation = Conversation()
    conversation.open()
    topics = [{"error_code": 3, "name": EVIL, "is_internal": False, "partitions": []}]
    for number, (key, version, request, response) in enumerate(
        [
            (18, 3, {"client_software_name": EVIL, "client_software_version": EVIL}, None),
            (12, 4, {"group_id": EVIL, "generation_id": 1, "member_id": EVIL}, {"error_code": 27}),
            (3, 1, {"topics": [{"name": EVIL}]}, {"brokers": [], "controller_id": 1, "topics": topics}),
            (10, 3, {"key": EVIL, "key_type": 0}, {"error_code": 15, "error_message": EVIL, "host": EVIL}),
        ],
        1,
    ):
        conversation.client_sends(framed(encode_request(Message(key, version, number, request, "c" + EVIL))))
        if response is not None:
            conversation.broker_sends(framed(encode_response(Message(key, version, number, response))))
    conversation.close()
    return pcap(conversation.packets)
