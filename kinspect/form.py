"""What runs: the version of kinspect, compiled with mypyc or its source."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.2.0"

COMPILED: Final = not __file__.endswith(".py")
"""True if the compilable modules are compiled. This module is compiled with all of them, or none is."""
