"""Keys of the APIs that code treats apart; `schema` has all of them."""

from __future__ import annotations

from typing import Final

PRODUCE: Final = 0
FIND_COORDINATOR: Final = 10
JOIN_GROUP: Final = 11
LEAVE_GROUP: Final = 13
SASL_HANDSHAKE: Final = 17
API_VERSIONS: Final = 18
END_TXN: Final = 26
SASL_AUTHENTICATE: Final = 36
ENVELOPE: Final = 58
CONSUMER_GROUP_HEARTBEAT: Final = 68
SHARE_GROUP_HEARTBEAT: Final = 76
STREAMS_GROUP_HEARTBEAT: Final = 88
