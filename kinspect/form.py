"""Which form of kinspect runs: what mypyc made of it, or its source."""

from __future__ import annotations

from typing import Final

COMPILED: Final = not __file__.endswith(".py")
"""This module is compiled with all that are, or none is."""
