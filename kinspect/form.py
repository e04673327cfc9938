"""The running form of kinspect: compiled with mypyc, or its source."""

from __future__ import annotations

from typing import Final

COMPILED: Final = not __file__.endswith(".py")
"""True if the compilable modules are compiled. This module is compiled with all of them, or none is."""
