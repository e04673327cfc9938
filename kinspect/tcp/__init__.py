"""Segments to streams: pure reassembly, in packet order, with stated limits on memory."""

from .connection import Connection, StreamHandler
from .reassembly import Reassembler

__all__ = ["Connection", "Reassembler", "StreamHandler"]
