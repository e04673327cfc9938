"""An API that a fork has: its definitions, and a capture of it."""

import json

from support.pcap import Conversation, framed, pcap

KEY = 517
REQUEST = {
    "apiKey": KEY,
    "type": "request",
    "listeners": ["broker"],
    "name": "UpdateLicenseRequest",
    "validVersions": "0-1",
    "flexibleVersions": "1+",
    "fields": [
        {"name": "License", "type": "string", "versions": "0+", "about": "A text."},
        {"name": "Nodes", "type": "[]Node", "versions": "1+", "nullableVersions": "1+"},
        {
            "name": "Epoch",
            "type": "int64",
            "versions": "1+",
            "taggedVersions": "1+",
            "tag": 0,
            "default": "-1",
        },
    ],
    "commonStructs": [
        {"name": "Node", "versions": "1+", "fields": [{"name": "NodeId", "type": "int32", "versions": "1+"}]}
    ],
}
RESPONSE = {
    "apiKey": KEY,
    "type": "response",
    "name": "UpdateLicenseResponse",
    "validVersions": "0-1",
    "flexibleVersions": "1+",
    "fields": [
        {"name": "ErrorCode", "type": "int16", "versions": "0+"},
        {"name": "ThrottleTimeMs", "type": "int32", "versions": "0+"},
    ],
}
TEXT = "// Of a fork.\n" + json.dumps([REQUEST, RESPONSE], indent=1)


def capture():
    """One exchange of version 1."""
    talk = Conversation()
    talk.open()
    head = KEY.to_bytes(2, "big") + b"\0\1\0\0\0\7\0\3app\0"
    talk.client_sends(framed(head + b"\3ab" + b"\2\0\0\0\5\0" + b"\1\0\x08" + bytes(7) + b"\x09"))
    talk.broker_sends(framed(b"\0\0\0\7\0" + b"\0\0" + b"\0\0\0\0" + b"\0"))
    talk.close()
    return pcap(talk.packets)
