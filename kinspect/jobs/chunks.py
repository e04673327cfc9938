"""The chunks in which workers read the input."""

from __future__ import annotations

CHUNK_BYTES = 512 * 1024
"""Input bytes of a chunk; the last block may exceed them."""
