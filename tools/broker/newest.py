"""`make newest-kafka`: prints the newest release of Kafka on Maven Central, if the table does not have it."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from central import ToolError

from broker.artifacts import newer
from kinspect.protocol import schema


def main() -> int:
    """Exit status: 0 known · 2 nobody can be asked."""
    known = [*schema.releases()][-1]
    try:
        found = newer(known)
    except ToolError as error:
        print(f"newest: {error}", file=sys.stderr)
        return 2
    if found is None:
        print(f"{known} is the newest release of Kafka, and the table has it", file=sys.stderr)
    else:
        print(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
