"""One packet's bytes to one TCP segment: link layers, IP, TCP header; no state, no copies of payload."""

from .segments import segments
from .tables import LINK_TYPES

__all__ = ["LINK_TYPES", "segments"]
