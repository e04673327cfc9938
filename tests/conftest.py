"""Settings of all tests; makes `support`, what several test packages share, importable."""

import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

# A busy machine is no failure, and a test run that cannot be repeated helps nobody.
settings.register_profile("kinspect", deadline=None, derandomize=True)
settings.load_profile("kinspect")
