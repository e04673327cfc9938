"""`make compiled` runs tests in the compiled form and says so here; `make test` those of the source."""

from __future__ import annotations

import os

# Only the compiled form has another to be compared with: the source it was made of, which lies beside the tests.
collect_ignore = [] if os.environ.get("KINSPECT_FORM") == "compiled" else ["test_same_output.py"]
