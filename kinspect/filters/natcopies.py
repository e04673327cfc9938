"""Exchanges that a capture has twice: before and after address translation (NAT), as on a Docker host or a node of
Kubernetes. Two connections are one if both their first sequence numbers and both their ports are equal, an address is
not, and one has fewer hops left: who translates also forwards. A translation that changes a port, or numbers, is not
told."""

from __future__ import annotations

from collections import deque

from kinspect.facts import EndpointFacts, Facts
from kinspect.model import drop_oldest

CONNECTIONS_KEPT = 4096
"""Connections that may have a twin; the one that was not heard of for longest is forgotten first."""
PLACES_KEPT = 8
"""Places where a connection is seen: each translation on its way makes one."""
RECENT = 32
"""Exchanges of a connection that its twin's are compared with: copies come within microseconds."""
TRANSLATIONS_KEPT = 1000
OTHER_ADDRESSES = "other addresses"
"""Number of translations that are counted apart, and what stands for more of them."""

Place = tuple[str, str, int]
"""Addresses of a client and a broker, and the hops that the client's packets had left."""


class NatCopies:
    """Tells exchanges that were seen before, at other addresses."""

    def __init__(self) -> None:
        # By ports and first sequence numbers. The one heard of last stands last.
        self._recent: dict[tuple[object, ...], dict[Place, deque[int]]] = {}
        self._last: Facts | None = None
        self._ends: EndpointFacts | None = None
        """Those of the exchange noted last; `_places`, `_own` are of them."""
        self._places: dict[Place, deque[int]] = {}
        self._own: Place | None = None
        self.original: Place | None = None
        """Where the exchange was noted first, if the one noted last is a copy."""
        self.translations: dict[str, int] = {}
        """What `count` counted."""

    def count(self, copy: Facts) -> None:
        """Count a copy, which was noted last, by the addresses that are others at it, each as the one in its place."""
        assert self.original is not None
        own = copy.connection.client_ip, copy.connection.broker_ip
        changed = {old: new for old, new in zip(self.original[:2], own, strict=True) if old != new}
        told, counts = ", ".join(f"{old} as {new}" for old, new in changed.items()), self.translations
        if told not in counts and len(counts) >= TRANSLATIONS_KEPT:
            told = OTHER_ADDRESSES
        counts[told] = counts.get(told, 0) + 1

    def seen(self, exchange: Facts) -> bool:
        """Note an exchange; true if its copy was noted before. The one noted last may be asked for again."""
        if exchange is self._last:
            return self.original is not None
        self._last, self.original = exchange, None
        ends = exchange.connection
        if ends is not self._ends:
            self._turn_to(ends)
        places, own = self._places, self._own
        if own is None:
            return False
        key = hash((exchange.api_key, exchange.correlation_id, exchange.largest_message))
        noted = places[own]
        times = noted.count(key) if len(places) > 1 else 0
        noted.append(key)
        if len(places) > 1:
            for place, other in places.items():
                if _is_elsewhere(place, own) and other.count(key) > times:
                    self.original = place
                    return True
        return False

    def _turn_to(self, ends: EndpointFacts) -> None:
        """Find what was noted of a connection, as that heard of last."""
        self._ends, self._own = ends, None
        if ends.handshake is None:
            return
        number, other_number, hops = ends.handshake
        connection = ends.client_port, ends.broker_port, number, other_number
        self._places = places = self._recent.pop(connection, None) or {}
        self._recent[connection] = places
        drop_oldest(self._recent, CONNECTIONS_KEPT)
        self._own = own = ends.client_ip, ends.broker_ip, hops
        noted = places.pop(own, None)
        places[own] = deque(maxlen=RECENT) if noted is None else noted
        drop_oldest(places, PLACES_KEPT)


def _is_elsewhere(place: Place, own: Place) -> bool:
    """True if a place has other addresses, and is before or behind a forwarder."""
    return place[:2] != own[:2] and place[2] != own[2]
