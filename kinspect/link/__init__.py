"""Packets to TCP segments: link layers, tunnels, IP, TCP header. No copies of payload; fragments are the only state."""

from kinspect.link.layertables import LINK_TYPES
from kinspect.link.segments import Dissector, segments

__all__ = ["LINK_TYPES", "Dissector", "segments"]
