"""Segments to streams: pure reassembly, in packet order, with stated limits on memory."""

from kinspect.tcp.connection import Connection, StreamHandler
from kinspect.tcp.reassembly import Reassembler

__all__ = ["Connection", "Reassembler", "StreamHandler"]
