"""Packets to TCP segments: link layers, tunnels, IP, TCP header. No copies of payload; fragments are the only state."""

from kinspect.link.segments import Dissector, segments
from kinspect.link.tables import LINK_TYPES

__all__ = ["LINK_TYPES", "Dissector", "segments"]
